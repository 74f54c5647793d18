/* tests/unit/step_test.c: what each primitive of a schedule refuses, and by which rule; and traces as text.
 */
#include "../../kernels/schedule/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const char product[] = "%0 = input f32[10,8]\n"
			      "%1 = weight f32[8,6]\n"
			      "%2 = matmul %0 %1 : f32[10,6]\n"
			      "%3 = relu %2 : f32[10,6]\n"
			      "output %3\n";
static const char many[] = "%0 = input f32[4,9]\n"
			   "%1 = exp %0 : f32[4,9]\n"
			   "%2 = cumsum %1 axis=1 exclusive=0 reverse=0 : f32[4,9]\n"
			   "%3 = sum %1 axes=[0,1] : f32[1,1]\n"
			   "%4 %5 = topk %1 axis=1 k=3 largest=1 : f32[4,3] i64[4,3]\n"
			   "%6 = iota shape=[4,9] axis=1 : i64[4,9]\n"
			   "%7 = scatter_elements %0 %6 %1 axis=1 mode=1 : f32[4,9]\n"
			   "output %2\n"
			   "output %3\n"
			   "output %4\n"
			   "output %5\n"
			   "output %7\n";

static const char pooled[] = "%0 = input f32[1,10,6,3]\n"
			     "%1 = exp %0 : f32[1,10,6,3]\n"
			     "%2 = wmax %1 kernel=[1,3,3,1] stride=[1,1,1,1] dilation=[1,1,1,1] "
			     "lo=[0,1,1,0] hi=[0,1,1,0] : f32[1,10,6,3]\n"
			     "output %2\n";
static const char two[] = "%0 = input f32[4,6]\n"
			  "%1 = exp %0 : f32[4,6]\n"
			  "%2 = sum %0 axes=[0] : f32[1,6]\n"
			  "output %1\n"
			  "output %2\n";
static const char apart[] = "%0 = input f32[1,10,6,3]\n"
			    "%1 = exp %0 : f32[1,10,6,3]\n"
			    "%2 = wmax %1 kernel=[1,2,2,1] stride=[1,2,2,1] dilation=[1,1,1,1] "
			    "lo=[0,0,0,0] hi=[0,0,0,0] : f32[1,5,3,3]\n"
			    "output %2\n";
static const char rows[] = "%0 = input f32[12,6]\n"
			   "%1 = exp %0 : f32[12,6]\n"
			   "%2 = slice %1 start=[0,0] step=[1,1] shape=[10,6] : f32[10,6]\n"
			   "%3 = slice %1 start=[2,0] step=[1,1] shape=[10,6] : f32[10,6]\n"
			   "%4 = add %2 %3 : f32[10,6]\n"
			   "output %4\n";

static const char summed[] = "%0 = input f32[5,40]\n"
			     "%1 = exp %0 : f32[5,40]\n"
			     "%2 = sum %1 axes=[1] : f32[5,1]\n"
			     "%3 = bcast %2 shape=[5,40] : f32[5,40]\n"
			     "%4 = div %1 %3 : f32[5,40]\n"
			     "%5 = rmax %1 axes=[1] : f32[5,1]\n"
			     "output %1\n"
			     "output %4\n"
			     "output %5\n";

/* What the rows are made of is a result too. */
static const char norm[] = "%0 = input f32[6,40]\n"
			   "%1 = exp %0 : f32[6,40]\n"
			   "%2 = sum %1 axes=[1] : f32[6,1]\n"
			   "%3 = bcast %2 shape=[6,40] : f32[6,40]\n"
			   "%4 = sub %1 %3 : f32[6,40]\n"
			   "output %1\n"
			   "output %4\n";

static const char guarded[] = "%0 = input f32[1,40]\n"
			      "%1 = sum %0 axes=[1] : f32[1,1]\n"
			      "%2 = bcast %1 shape=[9,1] : f32[9,1]\n"
			      "%3 = exp %2 : f32[9,1]\n"
			      "output %1\n"
			      "output %3\n";

static const char wide[] = "%0 = input f32[12,32]\n"
			   "%1 = weight f32[32,16]\n"
			   "%2 = matmul %0 %1 : f32[12,16]\n"
			   "output %2\n";
static const char bytes[] = "%0 = input i8[4,8]\n"
			    "%1 = weight i8[6,8]\n"
			    "%2 = cast %0 to=i32\n"
			    "%3 = cast %1 to=i32\n"
			    "%4 = transpose %3 perm=[1,0]\n"
			    "%5 = matmul %2 %4\n"
			    "output %5\n";
static const char halves[] = "%0 = input f16[32,48]\n"
			     "%1 = weight f16[48,16]\n"
			     "%2 = matmul %0 %1 : f16[32,16]\n"
			     "output %2\n";

static const char picked[] = "%0 = input f32[9]\n"
			     "%1 = input i64[2]\n"
			     "%2 = gather %0 %1 axis=0 : f32[2]\n"
			     "output %2\n";

static const char slid[] =
    "%0 = input f32[1,6,7,5]\n"
    "%1 = weight f32[3,3,5,8]\n"
    "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\n"
    "%3 = relu %2\n"
    "output %3\n";
static const char strided[] =
    "%0 = input f32[1,6,7,5]\n"
    "%1 = weight f32[3,3,5,8]\n"
    "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,2] dilation=[1,1] ldil=[1,1] group=1\n"
    "output %2\n";
static const char grouped[] =
    "%0 = input f32[1,6,7,10]\n"
    "%1 = weight f32[3,3,5,8]\n"
    "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=2\n"
    "output %2\n";
static const char depthwise[] =
    "%0 = input f32[1,6,7,8]\n"
    "%1 = weight f32[3,3,1,8]\n"
    "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=8\n"
    "output %2\n";
static const char shared[] =
    "%0 = input f32[1,6,7,5]\n"
    "%1 = weight f32[3,3,5,8]\n"
    "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\n"
    "%3 = exp %1\n"
    "output %2\noutput %3\n";

/* The last step of the trace is refused by the rule; "": it is applied. */
struct refusal {
	const char *graph, *trace, *rule;
	bool strict;
};
static const struct refusal cases[] = {
    {product, "split t9.i0 2", "split: name", false},
    {product, "split t2.i0 1", "split: factor", false},
    {product, "split t2.i0 10", "split: factor", false},
    {product, "split t2.i0 4 shift", "split: tail", false},
    {product, "split t3.i0 4 shift", "", false},
    {product, "split t3.i0 5 shift", "", false},
    {product, "bind t3.i0 parallel; split t3.i0 4 shift", "split: binding", false},
    {product, "bind t3.i0 lane; split t3.i0 5", "split: binding", false},
    {product, "bind t3.i1 lane; split t3.i0 4 shift", "split: tail", false},
    {product, "fuse t2.i0 t2.k0", "fuse: chain", false},
    {product, "fuse t2.i1 t2.i0", "fuse: chain", false},
    {product, "fuse t2.i0 t2.i1 t2.k0", "fuse: names", false},
    {product, "bind t2.i0 parallel; fuse t2.i0 t2.i1", "fuse: binding", false},
    {product, "fuse t2.i0 t2.i1", "", false},
    {product, "reorder t2.k0 t2.i0", "", false},
    {product, "reorder t2.i0 t3.i0", "reorder: chain", false},
    {product, "reorder t2.i0 t2.i0", "reorder: names", false},
    {product, "split t2.k0 4; reorder t2.k0.i t2.k0.o", "", false},
    {product, "split t2'acc.k0 4; reorder t2'acc.k0.i t2'acc.k0.o", "reorder: sum", true},
    {product, "split t2.i0 4 cut; reorder t2.i0.o t2.i0.t.i", "reorder: chain", false},
    {product, "split t3.i0 4 shift; bind t3.i0.i parallel; reorder t3.i0.i t3.i0.o", "reorder: disjoint",
	false},
    {product, "bind t3.i1 vector; bind t3.i0 parallel; reorder t3.i1 t3.i0", "reorder: nested", false},
    {product, "fuse t2.i1 t2.k0; split t2.i1~t2.k0 5; reorder t2.i1~t2.k0.i t2.i1~t2.k0.o", "reorder: mixed",
	false},
    {product, "bind t2.k0 parallel", "bind: iterator", false},
    {product, "bind t2.k0 vector", "bind: iterator", false},
    {product, "bind t2.k0 unroll", "", false},
    {product, "bind t2.i0 pipeline", "bind: binding", false},
    {product, "bind t2.i0 parallel; bind t2.i1 parallel", "bind: nested", false},
    {product, "bind t2.i0 parallel; bind t2.i1 vector", "", false},
    {product, "split t3.i0 4 shift; bind t3.i0.o parallel", "bind: disjoint", false},
    {product, "split t3.i0 4 shift; bind t3.i0.i lane", "bind: disjoint", false},
    {product, "compute_at t2 t3.i0; bind t3.i1 parallel", "bind: scope", false},
    {product, "compute_at t2 t3.i0; bind t3.i0 parallel", "", false},
    {product, "compute_at t2 t3.i0; bind t2.i1 vector", "", false},
    {product, "split t2.i0 3 cut; bind t2.i0.i lane; bind t2.i0.t.i lane", "bind: name", false},
    {product, "split t2.i0 4 cut; bind t2.i1 lane; bind t2.i1't lane", "", false},
    {product, "inline t2", "inline: plain", false},
    {product, "inline t3", "inline: result", false},
    {product, "compute_at t3 t2.i0", "compute_at: order", false},
    {product, "compute_at t2 t2.i0", "compute_at: loop", false},
    {product, "bind t3.i0 vector; compute_at t2 t3.i0", "compute_at: vector", false},
    {product, "bind t3.i1 lane; compute_at t2 t3.i0", "compute_at: scope", false},
    {product, "split t3.i0 4 cut; compute_at t2 t3.i0.o", "compute_at: readers", false},
    {pooled, "slide t1 t2.i1", "slide: alloc", false},
    {pooled, "compute_at t1 t2.i1; slide t1 t2.i2", "slide: alloc", false},
    {pooled, "compute_at t1 t2.i1; slide t1 t2.i1", "", false},
    {pooled, "compute_at t1 t2.i1; slide t1 t2.i1; slide t1 t2.i1", "slide: ring", false},
    {pooled, "compute_at t1 t2.i1; slide t1 t2.i1; compute_at t1 t2.i2", "compute_at: ring", false},
    {pooled, "compute_at t1 t2.i1; slide t1 t2.i1; bind t2.i1 parallel", "bind: scope", false},
    {pooled, "bind t2.i1 parallel; compute_at t1 t2.i1; slide t1 t2.i1", "slide: serial", false},
    {pooled, "compute_at t1 t2.i1; split t1.i1 2 cut; slide t1 t2.i1", "slide: instances", false},
    {pooled, "compute_at t1 t2.i1; split t1.i1 2; slide t1 t2.i1", "slide: rows", false},
    {apart, "compute_at t1 t2.i1; slide t1 t2.i1", "slide: overlap", false},
    {pooled, "compute_at t1 t2.i1; bind t1.i1 unroll; slide t1 t2.i1", "slide: bound", false},
    {product, "bind t2.i0 parallel; bind t3.i0 parallel; join t2.i0 t3.i0", "join: waits", false},
    {product, "bind t2.i0 parallel; join t2.i0 t3.i0", "join: binding", false},
    {product, "bind t2.i0 parallel; bind t3.i0 parallel; join t3.i0 t2.i0", "join: outermost", false},
    {two, "bind t1.i0 parallel; bind t2.i1 parallel; join t1.i0 t2.i1", "", false},
    {two, "bind t1.i0 parallel; join t1.i0 t2.i1", "join: binding", false},
    {product, "unite t2.i0 t3.i0", "", false},
    {product, "unite t2.i0 t3.i0; bind t2.i0_t3.i0 parallel", "", false},
    {product, "unite t2.i0 t3.i0; unite t2.i1 t3.i1", "", false},
    {product, "unite t2.i1 t3.i0", "unite: neighbours", false},
    {product, "unite t3.i0 t2.i0", "unite: neighbours", false},
    {product, "unite t2.i0 t3.i1", "unite: neighbours", false},
    {product, "bind t2.i0 parallel; unite t2.i0 t3.i0", "unite: binding", false},
    {product, "fuse t3.i0 t3.i1; unite t2.i0 t3.i0~t3.i1", "unite: extent", false},
    {product, "fuse t2.i0 t2.i1; fuse t3.i0 t3.i1; unite t2.i0~t2.i1 t3.i0~t3.i1", "", false},
    {product, "fuse t2.i0 t2.i1; reorder t3.i1 t3.i0; fuse t3.i1 t3.i0; unite t2.i0~t2.i1 t3.i1~t3.i0",
	"unite: buffer", false},
    {two, "unite t1.i0 t2.i1", "unite: extent", false},
    {product, "bind t3.i1 lane; unite t2.i0 t3.i0", "unite: barrier", false},
    {pooled, "unite t1.i1 t2.i1", "unite: buffer", false},
    {rows, "compute_at t1 t4.i0; slide t1 t4.i0; split t4.i0 4", "", false},
    {rows, "compute_at t1 t4.i0; slide t1 t4.i0; split t4.i0 4 shift", "split: tail", false},
    {rows, "compute_at t1 t4.i0; slide t1 t4.i0; split t4.i0 4 cut; reorder t4.i0.i t4.i0.o", "reorder: ring",
	false},
    {rows, "compute_at t1 t4.i1; slide t1 t4.i1", "slide: rows", false},
    {summed, "rfactor t4.i0", "rfactor: combiner", false},
    {summed, "rfactor t2.i0", "rfactor: iterator", false},
    {summed, "rfactor t2.k1", "", false},
    {summed, "rfactor t2'acc.k1", "rfactor: sum", true},
    {summed, "rfactor t5.k1", "", true},
    {summed, "split t2.k1 16 guard; rfactor t2.k1.i; bind t2'p.k1.i vector", "", false},
    {summed, "split t2.k1 16 guard; rfactor t2.k1.i; bind t2.k1.i vector", "bind: iterator", false},
    {summed, "split t2.k1 16 cut; rfactor t2.k1.o", "rfactor: instances", false},
    {summed, "split t2.k1 16 cut; rfactor t2.k1.t.i", "rfactor: instances", false},
    {summed, "split t2.k1 8; reorder t2.k1.i t2.k1.o; rfactor t2.k1.o", "", false},
    {summed, "fuse t2.i0 t2.k1; rfactor t2.i0~t2.k1", "rfactor: mixed", false},
    {summed, "reorder t2.k1 t2.i0; bind t2.i0 lane; rfactor t2.k1", "rfactor: binding", false},
    {summed, "compute_at t2 t4.i0; rfactor t4.i0", "rfactor: nest", false},
    {summed, "compute_at t2 t4.i0; rfactor t2.k1; bind t4.i0 parallel", "", false},
    {summed, "compute_at t1 t4.i0", "compute_at: readers", false},
    {summed, "rfactor t2.k1; compute_at t2 t4.i0", "", false},
    {summed, "rfactor t2.k1; compute_at t2'p t4.i0", "compute_at: readers", false},
    {norm, "compute_at t2 t4.i0; compute_at t1 t4.i0", "", false},
    {norm, "compute_at t2 t4.i0; compute_at t1 t4.i0; bind t4.i0 parallel", "", false},
    {norm, "compute_at t2 t4.i1", "", false},
    {norm, "compute_at t2 t4.i1; compute_at t1 t4.i1; bind t4.i0 parallel", "", false},
    {norm, "split t4.i0 2; compute_at t2 t4.i0.o; compute_at t1 t4.i0.o; bind t4.i0.o parallel", "", false},
    {norm, "split t4.i0 4 shift; compute_at t2 t4.i0.o; compute_at t1 t4.i0.o", "compute_at: result", false},
    {guarded, "compute_at t1 t3.i0", "", false},
    {guarded, "compute_at t1 t3.i0; bind t3.i0 parallel", "bind: buffer", false},
    {guarded, "bind t3.i0 parallel; compute_at t1 t3.i0", "compute_at: result", false},
    {product, "pack %9 4", "pack: name", false},
    {product, "pack %0 4", "pack: scope", false},
    {product, "pack %2 4", "pack: width", false},
    {product, "pack %2 3; pack %2 3", "", false},
    {product, "pack %3 3", "pack: scope", false},
    {product, "compute_at t2 t3.i0; pack %2 3", "pack: scope", false},
    {product, "pack %2 3; bind t2.i0 parallel; bind t3.i0 parallel", "", false},
    {product, "split t2.i1 3; pack %2 3 0,1; bind t2.i1.o parallel", "", false},
    {product, "pack %1 4 1", "pack: dimensions", false},
    {product, "pack %1 1", "pack: width", false},
    {product, "pack %1 9", "pack: width", false},
    {product, "pack %1 6 0,1", "", false},
    {product, "pack %1 3 1,0", "", false},
    {product, "pack %1 40 0~1", "", false},
    {product, "pack %1 4; pack %1 4", "pack: form", false},
    {slid, "winograd t2 4", "", false},
    {slid, "winograd t2 2; winograd t2 2", "winograd: sum", false},
    {slid, "winograd t9 4", "winograd: name", false},
    {slid, "winograd t2 3", "winograd: tile", false},
    {slid, "winograd t3 4", "winograd: sum", false},
    {slid, "winograd t2 4", "winograd: sum", true},
    {slid, "winograd t2'acc 4", "winograd: sum", true},
    {slid, "pack %1 4; winograd t2 4", "winograd: factors", false},
    {slid, "bind t2.i1 parallel; winograd t2 4", "winograd: nest", false},
    {slid, "split t2.i1 4 cut; winograd t2 4", "winograd: nest", false},
    {slid, "compute_at t2 t3.i1; winograd t2 4", "winograd: nest", false},
    {slid, "winograd t2 4; pack %1 4", "", false},
    {slid, "winograd t2 4; pack %1 4; pack %1 4", "pack: form", false},
    {slid, "winograd t2 4; pack %1 4 2,3,1,0", "pack: map", false},
    {product, "winograd t2 4", "winograd: window", false},
    {strided, "winograd t2 4", "winograd: window", false},
    {grouped, "winograd t2 4", "winograd: window", false},
    {shared, "winograd t3 4", "winograd: weight", false},
    {product, "split t2.i0 16 guard", "", false},
    {product, "split t2.i0 1025 guard", "split: factor", false},
    {product, "split t2.i0 16 cut", "split: factor", false},
    {wide, "widen t2 5", "", false},
    {wide, "widen t2 5", "widen: columns", true},
    {wide, "widen t2 5; split t2.i1 20 guard; compute_at t2'w t2.i0; pack %1 20 0,1", "", false},
    {wide, "widen t2 8", "widen: columns", false},
    {wide, "widen t2 31", "", false},
    {wide, "widen t2 4000000000000000000", "widen: width", false},
    {wide, "widen t2 1", "widen: columns", false},
    {wide, "widen t9 5", "widen: name", false},
    {wide, "widen t2 5; widen t2'w 3", "widen: weight", false},
    {wide, "bind t2.i0 parallel; widen t2 5", "widen: nest", false},
    {slid, "widen t2 5; compute_at t2 t3.i1; pack %1 5", "", false},
    {slid, "widen t3 5", "widen: columns", false},
    {grouped, "widen t2 5", "widen: factor", false},
    {shared, "widen t3 5", "widen: weight", false},
    {slid, "planes t2 8", "", false},
    {slid, "planes t2 1; inline t2; pack %1 4", "", false},
    {slid, "planes t2 0", "planes: points", false},
    {slid, "planes t9 8", "planes: name", false},
    {slid, "planes t3 8", "planes: sum", false},
    {slid, "planes t2 8", "planes: sum", true},
    {slid, "planes t2 8; planes t2 8", "planes: sum", false},
    {slid, "planes t2 8; planes t2'mul 8", "", false},
    {slid, "bind t2.i1 parallel; planes t2 8", "planes: nest", false},
    {slid, "compute_at t2 t3.i1; planes t2 8", "planes: nest", false},
    {strided, "planes t2 8", "", false},
    {grouped, "planes t2 8", "", false},
    {product, "planes t2 8", "", false},
    {summed, "planes t2 8", "planes: factors", false},
    {product, "matrix t2 4 4 4", "", false},
    {product, "matrix t2 4 4 4", "matrix: sum", true},
    {product, "matrix t9 4 4 4", "matrix: name", false},
    {product, "matrix t3 4 4 4", "matrix: sum", false},
    {product, "matrix t2 0 4 4", "matrix: multiple", false},
    {product, "matrix t2 4 4 2048", "matrix: multiple", false},
    {product, "bind t2.i0 parallel; matrix t2 4 4 4", "matrix: nest", false},
    {product, "matrix t2 4 4 4; matrix t2'm 4 4 4", "", false},
    {slid, "matrix t2 16 8 16", "", false},
    {strided, "matrix t2 16 8 16", "", false},
    {grouped, "matrix t2 16 8 16; bind t2'm.i0 parallel", "", false},
    {grouped, "matrix t2 4 4 4; split t2.i3 4; bind t2.i3.o block", "", false},
    {depthwise, "matrix t2 4 4 4", "matrix: rows", false},
    {summed, "matrix t2 4 4 4", "matrix: factors", false},
    {product, "split t2.k0 4; reorder t2.k0.o t2.i0 t2.i1 t2.k0.i; rfactor t2.k0.o; matrix t2'p 4 4 4", "",
	false},
    {product, "stage %9 t2.i0", "stage: name", false},
    {product, "stage %0 t9.i0", "stage: name", false},
    {product, "stage %0 t2.i0 1", "stage: dimensions", false},
    {product, "stage %0 t2.i0 0,0,1", "stage: dimensions", false},
    {product, "stage %0 t2.i0 0,2", "stage: dimensions", false},
    {product, "stage %2 t2.i0", "stage: writers", false},
    {product, "stage %3 root", "stage: readers", false},
    {product, "compute_at t2 t3.i0; stage %2 root", "stage: scope", false},
    {product, "split t2.i0 4 cut; compute_at t2 t3.i0; stage %2 root", "compute_at: instances", false},
    {product, "stage %2 root 1,0", "", false},
    {product, "stage %1 root 1,0", "", false},
    {two, "stage %0 root", "", false},
    {product, "stage %0 t3.i0", "stage: readers", false},
    {product, "split t3.i0 4 cut; stage %2 t3.i0.o", "stage: readers", false},
    {product, "bind t2.i1 vector; stage %0 t2.i1", "stage: vector", false},
    {product, "bind t2.i1 lane; stage %0 t2.i0", "stage: scope", false},
    {product, "stage %0 t2.i0 1,0", "", false},
    {product, "stage %1 t2.i1 0~1", "", false},
    {product, "split t2.i0 4; split t2.i1 4; reorder t2.i0.o t2.i1.o t2.i0.i t2.i1.i; stage %1 t2.i1.o 1,0",
	"", false},
    {product, "bind t2.i0 block; stage %0 t2.i0; share %0's; bind t0's.i1 lane; bind t2.i1 lane",
	"bind: extent", false},
    {product, "bind t2.i0 block; stage %1 t2.i0; share %1's; bind t1's.i1 lane; bind t2.i1 lane", "", false},
    {product, "bind t2.i0 block; bind t2.i1 lane; stage %1 t2.i1; share %1's", "share: threads", false},
    {wide,
	"split t2.i0 4; split t2.i1 4; reorder t2.i0.o t2.i1.o t2.i0.i t2.i1.i; fuse t2.i0.o t2.i1.o; bind "
	"t2.i0.o~t2.i1.o block",
	"", false},
    {product,
	"split t3.i0 4 shift; split t3.i1 3; reorder t3.i0.o t3.i1.o t3.i0.i t3.i1.i; fuse t3.i0.o "
	"t3.i1.o; bind t3.i0.o~t3.i1.o block",
	"bind: disjoint", false},
    {wide, "tensorize t2.i9 fma8_f32", "tensorize: name", false},
    {wide, "tensorize t2.i1 turn", "tensorize: instruction", false},
    {wide, "tensorize t2.i1 fma8_f32", "tensorize: indices", false},
    {wide, "split t2.i1 8; reorder t2.k0 t2.i1.i; bind t2.i1.i vector; tensorize t2.i1.i fma8_f32",
	"tensorize: binding", false},
    {wide, "split t2.i1 8; reorder t2.k0 t2.i1.i; tensorize t2.i1.i fma8_f32", "", false},
    {wide, "split t2'acc.i1 8; reorder t2'acc.k0 t2'acc.i1.i; tensorize t2'acc.i1.i fma8_f32",
	"tensorize: sum", true},
    {wide, "split t2.i1 8; reorder t2.k0 t2.i1.i; tensorize t2.k0 fma8_f32", "tensorize: indices", false},
    {wide, "split t2.i0 8 cut; reorder t2.i1 t2.k0 t2.i0.i; tensorize t2.i0.i fma8_f32", "tensorize: indices",
	false},
    {wide,
	"split t2.i0 8 guard; split t2.i1 8; reorder t2.k0 t2.i0.i t2.i1.o t2.i1.i; tensorize t2.i1.i "
	"fma8_f32",
	"tensorize: nest", false},
    {wide, "split t2.i1 8; reorder t2.k0 t2.i1.i; tensorize t2.i1.i dot4_i8", "tensorize: value", false},
    {wide, "split t2.i1 8; reorder t2.k0 t2.i1.i; tensorize t2.i1.i fma8_f32; split t2.i1.i 4",
	"split: binding", false},
    {wide, "split t2.i1 8; reorder t2.k0 t2.i1.i; tensorize t2.i1.i fma8_f32; reorder t2.i1.i t2.k0",
	"reorder: instruction", false},
    {wide, "split t2.i1 8; reorder t2.k0 t2.i1.i; tensorize t2.i1.i fma8_f32; bind t2.i0 parallel", "",
	false},
    {wide, "split t2.i1 8; reorder t2.k0 t2.i1.i; tensorize t2.i1.i fma8_f32; stage %1 t2.k0", "", false},
    {wide, "split t2.i1 8; reorder t2.k0 t2.i1.i; tensorize t2.i1.i fma8_f32; stage %1 t2.i0 1,0",
	"stage: instruction", false},
    {wide,
	"split t2.i1 8; reorder t2.k0 t2.i1.i; tensorize t2.i1.i fma8_f32; bind t2.i1.i serial; split "
	"t2.i1.i 4",
	"", false},
    {wide, "split t2.i1 8; reorder t2.k0 t2.i1.i; bind t2.i1.i call", "bind: binding", false},
    {bytes, "inline t2; inline t3; split t5.k0 4; tensorize t5.k0.i dot4_i8", "", false},
    {bytes, "inline t2; inline t3; split t5.k0 4; tensorize t5.k0.i dot4_i8", "", true},
    {bytes, "inline t2; split t5.k0 4; tensorize t5.k0.i dot4_i8", "tensorize: value", false},
    {bytes, "inline t2; inline t3; split t5.k0 4; reorder t5.k0.i t5.i1; tensorize t5.k0.i dot4_i8",
	"tensorize: indices", false},
    {halves,
	"split t2'acc.i0 16; split t2'acc.i1 8; split t2'acc.k0 16; reorder t2'acc.i0.o t2'acc.i1.o "
	"t2'acc.k0.o t2'acc.i0.i; tensorize t2'acc.i0.i mma_f16",
	"tensorize: scope", false},
    {halves, "bind t2.i0 lane; compute_at t2'acc t2.i0; tensorize t2'acc.i1 mma_f16", "tensorize: team",
	false},
    {wide, "pipeline t2.i9 2", "pipeline: name", false},
    {wide, "pipeline t2.k0 2", "pipeline: copies", false},
    {wide, "stage %1 t2.i0; pipeline t2.i0 1", "pipeline: depth", false},
    {wide, "stage %1 t2.i0; pipeline t2.i0 9", "pipeline: depth", false},
    {wide, "split t2.i0 4; stage %1 t2.i0.o; pipeline t2.i0.o 4", "pipeline: depth", false},
    {wide, "split t2.i0 4; stage %1 t2.i0.o; pipeline t2.i0.o 3", "", false},
    {wide, "bind t2.i0 parallel; stage %1 t2.i0; pipeline t2.i0 2", "pipeline: binding", false},
    {wide, "stage %1 t2.i0; pipeline t2.i0 2; bind t2.i0 parallel", "", false},
    {wide, "stage %1 t2.i0; pipeline t2.i0 2; split t2.i0 4", "split: binding", false},
    {wide, "stage %1 t2.i0; pipeline t2.i0 2; stage %0 t2.i0; bind t2.i1 vector", "", false},
    {wide, "stage %1 t2.i0; split t2.i0 5 cut; pipeline t2.i0.o 2", "pipeline: copies", false},
    {product, "compute_at t2 t3.i0; pipeline t3.i0 2", "pipeline: copies", false},
    {pooled, "compute_at t1 t2.i1; pipeline t2.i1 2", "", false},
    {pooled, "compute_at t1 t2.i1; slide t1 t2.i1; pipeline t2.i1 2", "pipeline: copies", false},
    {pooled, "compute_at t1 t2.i1; pipeline t2.i1 2; slide t1 t2.i1", "slide: serial", false},
    {product, "share %9", "share: name", false},
    {product, "share %2", "share: scope", false},
    {product, "compute_at t2 t3.i0; share %2", "share: block", false},
    {product, "compute_at t2 t3.i0; bind t3.i0 block; share %2", "", false},
    {product, "compute_at t2 t3.i0; bind t3.i0 lane; share %2", "share: threads", false},
    {product, "compute_at t2 t3.i0; bind t3.i1 lane", "", false},
    {product, "compute_at t2 t3.i0; bind t3.i0 block; bind t2.i1 lane", "bind: scope", false},
    {product, "enclose t3 t2", "enclose: order", false},
    {product, "enclose t2 t3; enclose t2 t3", "enclose: name", false},
    {product, "bind t2.i0 parallel; enclose t2 t3", "enclose: binding", false},
    {product, "enclose t2 t3; bind t2.one block; share %2; bind t2.i1 lane; bind t3.i1 lane", "", false},
    {summed, "unite t4.i0 t5.i0", "", false},
    {product, "compute_at t2 t3.i0; bind t3.i0 block; share %2; bind t2.i1 lane; bind t3.i1 lane", "", false},
    {picked, "stage %0 t2.i0; stage %1 t2.i0", "", false},
    {picked, "stage %1 t2.i0; stage %0 t2.i0", "stage: order", false},
    {many, "reorder t4'acc.c1 t4'acc.i0", "", false},
    {many, "bind t4'acc.c1 parallel", "bind: iterator", false},
    {many, "bind t4'acc.i0 parallel", "", false},
    {many, "reorder t5.k1 t5.c1", "reorder: carried", false},
    {many, "reorder t5.c1 t5.i0", "", false},
    {many, "reorder t3.c1 t3.c0", "reorder: carried", false},
    {many, "bind t3.c0 parallel", "bind: iterator", false},
    {many, "split t3.c1 4 shift", "split: tail", false},
    {many, "inline t3'copy", "inline: result", false},
    {many, "inline t4'acc", "inline: inverse", false},
    {many, "inline t2", "", false},
    {many, "compute_at t2 t5.i0", "compute_at: readers", false},
    {many, "compute_at t4'acc t4.i0", "compute_at: inverse", false},
    {many, "compute_at t5 t5.i0", "compute_at: result", false},
};

static void
test_refusals(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct arena a = {0};
		struct err e = {0};
		struct graph g;
		struct spec s;
		struct tir p, q;

		if (!graph_read(&g, &a, str_of(cases[i].graph), &e))
			fail_msg("%s", e.msg);
		spec_of_graph(&a, &g, &s);
		schedule_lower(&a, &s, cases[i].strict, &p);
		bool ok = trace_apply(&p, str_of(cases[i].trace), &q, &e);

		if (ok != (cases[i].rule[0] == 0) || (!ok && !strstr(e.msg, cases[i].rule)))
			fail_msg(
			    "'%s': wanted '%s', got '%s'", cases[i].trace, cases[i].rule, ok ? "" : e.msg);
		if (!ok)
			assert_int_equal(e.code, ERR_INFEASIBLE);
		if (ok && !tir_verify(&q, &e))
			fail_msg("'%s': %s", cases[i].trace, e.msg);
		arena_fini(&a);
	}
}

/* ---- text ---- */
static void
test_text(void **state)
{
	static const char *const good[] = {"split t2.k0 8 cut", "fuse t1.i0 t1.i1",
	    "reorder t1.i1 t1.k0 t1.i0", "bind t1.i0 parallel", "inline t3", "compute_at t3 t5.i0.o",
	    "reorder a b c d e f g h i", "stage %0 t1.i0.o", "stage %0's t1.i0.o 3,1~2",
	    "tensorize t1.i0 mma_f16", "pipeline t1.i0 3", "pack %1 16", "pack %1 16 1,0", "winograd t2 4",
	    "planes t2 8", "matrix t2 16 8 16"};
	static const char *const bad[] = {"splat t1.i0 2", "split t1.i0", "split t1.i0 x",
	    "split t1.i0 4 half", "bind t1.i0 sideways", "inline", "inline t1 t2", "compute_at t1", "fuse",
	    "split t1.i0 4 cut cut", "reorder a b c d e f g h i j k l m n o p q r s t u v w x y z aa",
	    "stage %0", "stage %0 t1.i0 2~1", "stage %0 t1.i0 x", "tensorize t1.i0", "tensorize t1.i0 mma",
	    "pack %1", "pack %1 x", "matrix t2 16 8"};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(good); i++) {
		struct arena a = {0};
		struct strbuf sb;
		struct err e = {0};
		struct step s;

		sb_init(&sb, &a);
		assert_true(step_read(str_of(good[i]), &s, &e));
		step_print(&sb, &s);
		assert_string_equal(sb.p, good[i]);
		arena_fini(&a);
	}
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct err e = {0};
		struct step s;

		if (step_read(str_of(bad[i]), &s, &e) || e.code != ERR_FORMAT)
			fail_msg("read: '%s'", bad[i]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_refusals),
	    cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
