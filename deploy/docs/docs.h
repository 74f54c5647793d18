/* deploy/docs/docs.h: korch-docs: man pages, completion and the pages about formats, written from the
 * tables that the programs are made of.  A row without words is a fault: it is named, and the exit
 * status is 1.  To add a part of a page: a row in page.def and its function. */
#ifndef KORCH_DOCS_H
#define KORCH_DOCS_H

#include "../../kernels/base/base.h"

struct docs {
	struct arena *a;
	const char *source; /* the root of the repository */
	uint32_t n_faults;
};
/* Says on stderr what lacks words, and where they belong. */
void docs_fault(struct docs *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The text of a file of the repository; "" and a fault where it cannot be read. */
struct str docs_source(struct docs *d, const char *path);
bool docs_write(struct docs *d, const char *dir, const char *name, struct str text, struct err *e) MUST_CHECK;
/* Words inside a Markdown table. */
void docs_cell(struct strbuf *sb, struct str words);

typedef void part_fn(struct docs *d, struct strbuf *sb);
#define PAGE(TEMPLATE, TO)
#define PART(NAME, FN) part_fn FN;
#include "page.def"

/* One page a program, one file of completion a program. */
bool docs_man(struct docs *d, const char *dir, struct err *e) MUST_CHECK;
bool docs_bash(struct docs *d, const char *dir, struct err *e) MUST_CHECK;

#endif
