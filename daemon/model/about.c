/* daemon/model/about.c: what an ONNX file says of itself; nothing here depends on it. */
#include "model_int.h"

#include <string.h>

enum { MOST_METADATA = 256 };

static void
add(struct model *m, struct model_word *list, const char *name, const char *value)
{
	if (value && *value)
		list[m->n_about++] =
		    (struct model_word){str_dup(m->arena, str_of(name)), str_dup(m->arena, str_of(value))};
}

void
read_about(const Onnx__ModelProto *p, struct model *m)
{
	const struct {
		const char *name, *value;
	} words[] = {
	    {"producer_name", p->producer_name},
	    {"producer_version", p->producer_version},
	    {"domain", p->domain},
	    {"version",
		p->has_model_version ? arena_printf(m->arena, "%lld", (long long)p->model_version) : NULL},
	    {"description", p->doc_string},
	    {"graph_name", p->graph->name},
	    {"graph_description", p->graph->doc_string},
	};
	size_t n = MIN_OF(p->n_metadata_props, (size_t)MOST_METADATA);
	struct model_word *list = NEW_ARRAY(m->arena, struct model_word, COUNT_OF(words) + n);

	for (size_t i = 0; i < COUNT_OF(words); i++)
		add(m, list, words[i].name, words[i].value);
	for (size_t i = 0; i < n; i++) {
		const Onnx__StringStringEntryProto *x = p->metadata_props[i];

		add(m, list, arena_printf(m->arena, "metadata.%s", x->key ? x->key : ""), x->value);
	}
	m->about = list;
}
