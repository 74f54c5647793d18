/* kernels/base/class.c: see class.h. */
#include "class.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct str class_kind(struct str class)
{
	return str_cut(&class, ':');
}

static bool
is_same_letter(char p, char c)
{
	return p == '?' || tolower((unsigned char)p) == tolower((unsigned char)c);
}

/* The last '*' takes one character more whenever what follows it does not fit: never more than |p| x |c|
 * steps.
 */
static bool
glob_fits(struct str p, struct str c)
{
	size_t i = 0, k = 0, star = SIZE_MAX, taken = 0;

	while (k < c.n) {
		if (i < p.n && p.p[i] == '*') {
			star = i++;
			taken = k;
		} else if (i < p.n && is_same_letter(p.p[i], c.p[k])) {
			i++;
			k++;
		} else if (star != SIZE_MAX) {
			i = star + 1;
			k = ++taken;
		} else
			return false;
	}
	while (i < p.n && p.p[i] == '*')
		i++;
	return i == p.n;
}

bool
class_fits(struct str pattern, struct str class)
{
	return glob_fits(pattern, class) ||
	    (!memchr(pattern.p, ':', pattern.n) && glob_fits(pattern, class_kind(class)));
}

/* ---- a CPU's ------------------------------------------------------------------------- */
/* "(R)", "(TM)", and "CPU" or "@" as a word say nothing. */
static size_t
skip_of(struct str rest, bool begins_word)
{
	static const struct {
		const char *text;
		bool is_word;
	} none[] = {
	    {"(R)", false}, {"(TM)", false}, {"(r)", false}, {"(tm)", false}, {"CPU ", true}, {"@", true}};

	for (size_t i = 0; i < COUNT_OF(none); i++)
		if (str_starts(rest, none[i].text) && (begins_word || !none[i].is_word))
			return strlen(none[i].text);
	return 0;
}

/* Letters, digits, '.', '_' and '+' stay; a run of all else is one '-', none at either end. */
static void
words_of(struct str model, struct strbuf *out)
{
	bool gap = false;

	for (size_t i = 0; i < model.n;) {
		size_t skip =
		    skip_of((struct str){model.p + i, model.n - i}, i == 0 || model.p[i - 1] == ' ');
		char c = model.p[i];

		i += skip ? skip : 1;
		if (skip || !(isalnum((unsigned char)c) || c == '.' || c == '_' || c == '+')) {
			gap = true;
			continue;
		}
		if (gap && out->n)
			sb_addc(out, '-');
		gap = false;
		sb_addc(out, c);
	}
}

bool
class_has_model(struct str name)
{
	while (name.n) {
		struct str word = str_cut(&name, ' ');

		if (word.n >= 3 && memcmp(word.p + word.n - 3, "GHz", 3) == 0)
			continue;
		for (size_t i = 0; i < word.n; i++)
			if (isdigit((unsigned char)word.p[i]))
				return true;
	}
	return false;
}

void
class_of_cpu(struct str model, const char *isa, char out[CLASS_MAX])
{
	struct arena tmp = {0};
	struct strbuf word;
	size_t room = CLASS_MAX - sizeof("cpu:-") - strlen(isa);
	char hex[65];
	struct hash h = hash_bytes(model.p, model.n);

	sb_init(&word, &tmp);
	words_of(model, &word);
	if (word.n == 0)
		sb_addz(&word, "unknown");
	hash_hex(&h, hex);
	if (word.n > room)
		(void)snprintf(out, CLASS_MAX, "cpu:%.*s-%.6s-%s", (int)room - 7, word.p, hex, isa);
	else
		(void)snprintf(out, CLASS_MAX, "cpu:%.*s-%s", (int)word.n, word.p, isa);
	arena_fini(&tmp);
}

void
class_of_gpu(struct str name, struct str mig, char out[CLASS_MAX])
{
	(void)snprintf(out, CLASS_MAX, "cuda:%.*s%s%.*s", (int)MIN_OF(name.n, (size_t)38), name.p,
	    mig.n ? "+mig-" : "", (int)MIN_OF(mig.n, (size_t)14), mig.p);
	for (char *p = out; *p; p++)
		if (isspace((unsigned char)*p) || !isprint((unsigned char)*p))
			*p = '-';
}
