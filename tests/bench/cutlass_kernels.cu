/* CUTLASS's own kernels as cubins: cutlass_kernels.py compiles this file with one KERNEL_... defined at a time, for
 * nvcc -cubin.  The shapes are those of the defaults of CUTLASS's profiler. */
#include <cutlass/conv/device/implicit_gemm_convolution.h>
#include <cutlass/conv/kernel/default_conv2d_fprop.h>
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/gemm/device/gemm.h>

using Row = cutlass::layout::RowMajor;
using Tensor = cutlass::arch::OpClassTensorOp;
using Simt = cutlass::arch::OpClassSimt;
template <int M, int N, int K> using Shape = cutlass::gemm::GemmShape<M, N, K>;
using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>;

/* All operands in memory order; sums in float. */
template <typename Of, typename Unit, typename Block, typename Warp, typename Instruction, int Stages, int Align>
using Product = typename cutlass::gemm::device::Gemm<
    Of, Row, Of, Row, Of, Row, float, Unit, cutlass::arch::Sm80, Block, Warp, Instruction,
    cutlass::epilogue::thread::LinearCombination<Of, Align, float, float>, Swizzle, Stages, Align, Align>::GemmKernel;

#ifdef KERNEL_GEMM_F16
using Kernel = Product<cutlass::half_t, Tensor, Shape<128, 128, 32>, Shape<64, 64, 32>, Shape<16, 8, 16>, 4, 8>;
#endif
#ifdef KERNEL_GEMM_TF32
using Kernel = Product<float, Tensor, Shape<128, 128, 16>, Shape<64, 64, 16>, Shape<16, 8, 8>, 4, 4>;
#endif
#ifdef KERNEL_GEMM_F32
using Kernel = Product<float, Simt, Shape<128, 128, 8>, Shape<32, 64, 8>, Shape<1, 1, 1>, 4, 1>;
#endif
#ifdef KERNEL_CONV_F16
using Nhwc = cutlass::layout::TensorNHWC;
using Half = cutlass::half_t;
using Kernel = typename cutlass::conv::kernel::DefaultConv2dFprop<
    Half, Nhwc, Half, Nhwc, Half, Nhwc, float, Tensor, cutlass::arch::Sm80, Shape<128, 64, 64>, Shape<64, 32, 64>,
    Shape<16, 8, 16>, cutlass::epilogue::thread::LinearCombination<Half, 8, float, float>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<4>, 3, cutlass::arch::OpMultiplyAdd,
    cutlass::conv::IteratorAlgorithm::kOptimized>::Kernel;
#endif

template __global__ void cutlass::Kernel<Kernel>(typename Kernel::Params);
/* What a launch asks for beside the code, where cutlass_kernels.py finds it: behind a mark, threads and bytes of shared memory. */
extern "C" __device__ const unsigned korch_launch[4] = {0x4b4f5243u, 0x48214c41u, Kernel::kThreadCount,
                                                        static_cast<unsigned>(sizeof(typename Kernel::SharedStorage))};
