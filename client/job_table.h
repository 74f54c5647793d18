/* client/job_table.h: jobs and workers as tables for a person. */
#ifndef KORCH_JOB_TABLE_H
#define KORCH_JOB_TABLE_H

#include "../proto/msg.h"

void job_table_head(struct strbuf *sb);
void job_table_row(struct strbuf *sb, const struct m_job *job);
void worker_table_head(struct strbuf *sb);
void worker_table_row(struct strbuf *sb, const struct m_worker *w);

#endif
