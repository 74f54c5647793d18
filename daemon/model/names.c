/* daemon/model/names.c: names to numbers, and what a missing name means. */
#include "model_int.h"

#include <string.h>

static uint32_t
slot_of(const struct name_table *t, const char *key)
{
	uint32_t i = (uint32_t)hash64(key, strlen(key), 1) & (t->cap - 1);

	while (t->key[i] && strcmp(t->key[i], key) != 0)
		i = (i + 1) & (t->cap - 1);
	return i;
}

static void
resize(struct name_table *t, uint32_t cap)
{
	struct name_table old = *t;

	t->cap = cap;
	t->key = NEW_ARRAY(t->a, const char *, cap);
	t->value = NEW_ARRAY(t->a, uint32_t, cap);
	for (uint32_t i = 0; i < old.cap; i++)
		if (old.key[i]) {
			uint32_t s = slot_of(t, old.key[i]);
			t->key[s] = old.key[i];
			t->value[s] = old.value[i];
		}
}

void
names_init(struct name_table *t, struct arena *a)
{
	*t = (struct name_table){.a = a};
	resize(t, 256);
}

bool
names_find(const struct name_table *t, const char *key, uint32_t *value)
{
	uint32_t i = slot_of(t, key);

	if (!t->key[i])
		return false;
	*value = t->value[i];
	return true;
}

bool
names_add(struct name_table *t, const char *key, uint32_t value)
{
	if (2 * (t->n + 1) > t->cap)
		resize(t, 2 * t->cap);
	uint32_t i = slot_of(t, key);
	if (t->key[i])
		return false;
	t->key[i] = key;
	t->value[i] = value;
	t->n++;
	return true;
}

const char *
or_empty(const char *name)
{
	return name ? name : "";
}

bool
is_onnx_domain(const char *domain)
{
	return !domain || !domain[0] || strcmp(domain, "ai.onnx") == 0;
}
