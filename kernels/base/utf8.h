/* kernels/base/utf8.h: the characters of text that others wrote. */
#ifndef KORCH_UTF8_H
#define KORCH_UTF8_H

#include "base.h"

/* The code point that s, which is not empty, begins with; *n: its bytes.  -1: it begins with none in UTF-8's
 * shortest form; *n is 1. */
int32_t utf8_at(struct str s, size_t *n);
/* Controls, what changes the direction of text or draws nothing, and -1. */
bool utf8_is_hidden(int32_t c);
/* The next character of *rest, which is not empty, as a terminal may be given it: "?" for a hidden one. */
struct str utf8_plain(struct str *rest);
void utf8_add_plain(struct strbuf *sb, struct str s);

#endif
