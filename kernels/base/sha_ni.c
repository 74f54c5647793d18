/* kernels/base/sha_ni.c: SHA-256 by the CPU's own instructions, where it has them: models of hundreds of
 * megabytes are hashed by every program that meets them, and mbedTLS's C does 170 MB/s. */
#include "sha_ni.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

static const uint32_t round_key[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb,
    0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624,
    0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb,
    0xbef9a3f7, 0xc67178f2};

/* Asked once: in a virtual machine each question costs as much as hashing 100 kB.  The answer is a constant
 * of the machine, so that it does not matter which thread asks first. */
bool
sha_ni_works(void)
{
	static _Atomic int answer; /* 0: not asked yet */
	unsigned a, b, c, d, a7, b7, c7, d7;

	if (answer == 0)
		answer = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) && (c & bit_SSSE3) &&
			__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7) && (b7 & bit_SHA)
		    ? 1
		    : -1;
	return answer > 0;
}

/* The instructions keep the eight words of the state as ABEF and CDGH. */
__attribute__((target("sha,sse4.1,ssse3"))) void
sha_ni_blocks(uint32_t state[8], const uint8_t *p, size_t n_blocks)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	__m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0xb1);
	__m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(state + 4)), 0x1b);
	__m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);

	for (; n_blocks > 0; n_blocks--, p += 64) {
		__m128i abef_before = abef, cdgh_before = cdgh, w[4];

		for (int i = 0; i < 4; i++)
			w[i] = _mm_shuffle_epi8(
			    _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i)), swap);
#pragma GCC unroll 16
		for (int i = 0; i < 16; i++) {
			__m128i m;

			if (i >= 4)
				w[i & 3] = _mm_sha256msg2_epu32(
				    _mm_add_epi32(_mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]),
					_mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4)),
				    w[(i + 3) & 3]);
			m = _mm_add_epi32(
			    w[i & 3], _mm_loadu_si128((const __m128i *)(const void *)(round_key + 4 * i)));
			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, m);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(m, 0x0e));
		}
		abef = _mm_add_epi32(abef, abef_before);
		cdgh = _mm_add_epi32(cdgh, cdgh_before);
	}
	low = _mm_shuffle_epi32(abef, 0x1b);
	high = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(low, high, 0xf0));
	_mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(high, low, 8));
}
#else
bool
sha_ni_works(void)
{
	return false;
}

void
sha_ni_blocks(uint32_t state[8], const uint8_t *p, size_t n_blocks)
{
	(void)state;
	(void)p;
	(void)n_blocks;
	bug("this CPU has no instructions for SHA-256");
}
#endif
