/* kernels/base/json.h: text as JSON. */
#ifndef KORCH_JSON_H
#define KORCH_JSON_H

#include "base.h"

/* "..." with escapes; bytes that are no UTF-8 become U+FFFD. */
void json_text(struct strbuf *sb, struct str s);

#endif
