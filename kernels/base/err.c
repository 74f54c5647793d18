/* kernels/base/err.c: errors as values, and the one way to die. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *text;
	int exit_status, wire;
} err_row[ERR_COUNT] = {
#define ERR(NAME, EXIT, WIRE, TEXT) [ERR_##NAME] = {#NAME, TEXT, EXIT, WIRE},
#include "err.def"
#undef ERR
};

bool(err_set)(struct err *e, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	e->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	return false;
}

bool(err_in)(struct err *e, const char *fmt, ...)
{
	char where[sizeof(e->msg)], whole[2 * sizeof(e->msg) + 2];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(where, sizeof(where), fmt, ap);
	va_end(ap);
	(void)snprintf(whole, sizeof(whole), "%s: %s", where, e->msg);
	whole[sizeof(e->msg) - 1] = '\0';
	memcpy(e->msg, whole, strlen(whole) + 1);
	return false;
}

int
err_exit_status(enum err_code code)
{
	return err_row[code].exit_status;
}

int
err_wire(enum err_code code)
{
	return err_row[code].wire;
}

enum err_code
err_of_wire(uint64_t wire)
{
	for (int i = 0; i < ERR_COUNT; i++)
		if ((uint64_t)err_row[i].wire == wire)
			return (enum err_code)i;
	return ERR_FAILED;
}

const char *
err_name(enum err_code code)
{
	return err_row[code].name;
}

const char *
err_text(enum err_code code)
{
	return err_row[code].text;
}

void
bug_at(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	(void)fprintf(stderr, "bug: %s:%d: ", file, line);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	abort();
}
