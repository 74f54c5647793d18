/* A product by wgmma on tiles of 128 x 256 x 64 with 16-byte copies, in the generator's dialect: no headers.
 * Golden machine code for the model and the reader; it was compiled and read, never run. */
typedef unsigned u32; typedef unsigned long long u64;
#define FN static __device__ __forceinline__
FN u32 sh(const void *p) { return (u32)__cvta_generic_to_shared(p); }
FN void cp16(u32 to, const void *from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory"); }
FN void wg(float *d, u64 a, u64 b) { asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, %128, %129, 1, 1, 1, 0, 1;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127]) : "l"(a), "l"(b)); }
#ifndef STAGES
#define STAGES 4
#endif
#define BK 64
#define SA (128 * BK * 2)
#define SB (BK * 256 * 2)
extern "C" __global__ void __launch_bounds__(256, 1) k(const unsigned short *a, const unsigned short *b, unsigned short *c, int m_, int n_, int k_)
{
	extern __shared__ __align__(1024) char s[];
	const int t = threadIdx.x, g = t / 128;
	const unsigned short *pa = a + (u64)(blockIdx.y * 128 + t / 8) * k_ + t % 8 * 8, *pb = b + (u64)(t / 32) * n_ + blockIdx.x * 256 + t % 32 * 8;
	const u32 base = sh(s), ta = base + (t / 8) * 128 + ((t % 8 ^ t / 8 % 8) * 16), tb = base + STAGES * SA + t % 32 / 8 * (BK * 128) + (t / 32) * 128 + ((t % 8 ^ t / 32 % 8) * 16);
	const u64 da0 = (u64)(base + g * 64 * 128) >> 4 & 0x3fff | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
	const u64 db0 = (u64)(base + STAGES * SA) >> 4 & 0x3fff | (u64)(BK * 128 >> 4) << 16 | (u64)64 << 32 | (u64)1 << 62;
	float d[128];
#pragma unroll
	for (int i = 0; i < 128; i++) d[i] = 0;
#define LOAD(ST) do { \
	_Pragma("unroll") for (int q = 0; q < 4; q++) cp16(ta + (ST) * SA + q * 32 * 128, pa + (u64)q * 32 * k_); \
	_Pragma("unroll") for (int q = 0; q < 8; q++) cp16(tb + (ST) * SB + q * 8 * 128, pb + (u64)q * 8 * n_); \
	pa += BK; pb += (u64)BK * n_; } while (0)
#pragma unroll
	for (int st = 0; st < STAGES - 2; st++) { LOAD(st); asm volatile("cp.async.commit_group;" ::: "memory"); }
	int rd = 0, wr = STAGES - 2;
	for (int k0 = 0; k0 < k_; k0 += BK) {
		asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 3) : "memory");
		asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
		__syncthreads();
		asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
		for (int kk = 0; kk < 4; kk++) wg(d, da0 + rd * (SA >> 4) + kk * 2, db0 + rd * (SB >> 4) + kk * (16 * 128 >> 4));
		asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
		if (k0 + (STAGES - 2) * BK < k_) LOAD(wr);
		asm volatile("cp.async.commit_group;" ::: "memory");
		asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
		rd = rd + 1 == STAGES ? 0 : rd + 1;
		wr = wr + 1 == STAGES ? 0 : wr + 1;
	}
	asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
	for (int j = 0; j < 32; j++)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			u32 u; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(u) : "f"(d[4 * j + 2 * h]), "f"(d[4 * j + 2 * h + 1]));
			*(u32 *)(c + (u64)(blockIdx.y * 128 + g * 64 + t / 32 % 4 * 16 + t % 32 / 4 + 8 * h) * n_ + blockIdx.x * 256 + 8 * j + t % 4 * 2) = u;
		}
}
