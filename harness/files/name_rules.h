/* The entries of a name_map: patterns and what is to be done with the tensors that they fit. */
#ifndef CPEQ_HARNESS_FILES_NAME_RULES_H
#define CPEQ_HARNESS_FILES_NAME_RULES_H

#include "harness/files/pool.h"
#include "harness/files/text.h"

#include <regex.h>

enum { CP_MOST_PIECES = 8 };

typedef struct cp_name_rule {
    regex_t theirs; /* of a whole name */
    size_t pieces;
    const char *ours[CP_MOST_PIECES]; /* \1 to \9 are what the pattern's groups held */
    bool transpose;
    bool cut; /* along `axis`, which is counted after transposition */
    int axis;
    bool repeats;                  /* the pieces alternate: sizes are those of one turn */
    int64_t sizes[CP_MOST_PIECES]; /* without `padded` of each piece */
    bool padded;                   /* sizes[0] are ours, what is behind them is padding */
} cp_name_rule;

typedef struct cp_name_rules {
    size_t count;
    cp_name_rule *rules;
} cp_name_rules;

/* `where` begins every sentence. Close on failure too. */
cp_status cp_name_rules_read(cp_name_rules *rules, cp_pool *pool, const char *text, const char *where);
void cp_name_rules_close(cp_name_rules *rules);

/* The first rule that fits, and what the groups held; NULL: none does. */
enum { CP_MOST_GROUPS = 11 }; /* the whole, the pattern, and \1 to \9 */
const cp_name_rule *cp_name_rules_find(const cp_name_rules *rules, const char *name,
                                       regmatch_t groups[CP_MOST_GROUPS]);

/* The name of a piece; false: it is longer than a name may be. */
bool cp_name_rule_fill(char out[CP_NAME_BYTES], const cp_name_rule *rule, size_t piece, const char *name,
                       const regmatch_t groups[CP_MOST_GROUPS]);

#endif
