/* kernels/space/space.h: the space of a spec's schedules, and what a schedule makes of the spec. */
#ifndef KORCH_SPACE_H
#define KORCH_SPACE_H

#include "../ir/ir.h"
#include "../schedule/choices.h"
#include "../target/target.h"

/* What a schedule makes of the spec, as a number: equal numbers, the same kernel.  False: nothing.
 * kernels/generate has text_outcome(); trace_outcome() knows the trace, and no text: of a GPU a few that it
 * lists have none. */
typedef bool space_outcome(
    struct arena *tmp, const struct spec *s, struct str schedule, const struct target *t, uint64_t *out);
bool trace_outcome(
    struct arena *tmp, const struct spec *s, struct str schedule, const struct target *t, uint64_t *out);

/* Schedules worth trying, best guess first, at most `effort` of them, and one more where products are
 * rounded: the form that does not.  From an effort of two on, calls of the target's libraries beside them.  A
 * schedule is a line of self-describing text ("mr=6 nr=16 kc=384 rows=96"); "" means all defaults.  Of
 * several with the same outcome the first alone is listed. */
void space_list(struct arena *a, const struct spec *s, const struct target *t, uint32_t effort,
    space_outcome *outcome, struct str **schedules, uint32_t *n);

/* The schedule by the rules' own guess. */
#define TRACED "trace=1"
/* What a schedule says to the loop program's rules.  ERR_INFEASIBLE: a knob that they do not hear; Winograd's
 * form is asked for and suits no convolution of it.  Cheap: it looks at the graph alone, and a rule may still
 * find that it cannot do what is asked for. */
bool space_choices(const struct spec *s, struct str schedule, const struct target *t, struct choices *out,
    struct err *e) MUST_CHECK;
/* What the loop program's rules may know of the device, and the trace and the program, bound, that they make
 * of a spec's NEST program (schedule_lower).  ERR_INFEASIBLE: a choice that no rule can follow: it would be
 * another schedule's kernel. */
struct schedule_target; /* kernels/schedule */
struct tir;             /* kernels/tir */
struct schedule_target space_schedule_target(const struct target *t);
bool space_by_rules(const struct tir *nest, const struct choices *chosen, const struct target *t,
    struct strbuf *trace, struct tir *out, struct err *e) MUST_CHECK;
/* What the schedule makes of the spec on its way to text: the rules' trace and the loop program. */
bool space_print(struct strbuf *sb, const struct spec *s, struct str schedule, const struct target *t,
    struct err *e) MUST_CHECK;
/* The one to build with where nothing was measured: the defaults, which space_list() begins with, but where
 * Winograd's form pays. */
struct str space_guess(struct arena *a, const struct spec *s, const struct target *t);

/* A library's call that is a better guess than generated code, as nothing has to be compiled for it and it
 * is about as fast: of a CPU's library that is there, tensors as they lie.  "": there is none; whether the
 * library has a fast one is known where it is (a worker). */
struct str space_library(struct arena *a, const struct spec *s, const struct target *t);

/* Is one worth tiles of m x m results (2 or 4) on the target? */
bool winograd_suits(const struct spec *s, const struct target *t, int64_t m);
/* Did an earlier generator make tiles of it, of some size, for vectors of any width? */
bool winograd_suited(const struct spec *s);
/* May a kernel of it have been made so on the device, by today's space or an earlier one's? */
bool space_winograd(const struct spec *s, const struct target *t);

#endif
