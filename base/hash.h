/* sha256, from libcrypto. */
#ifndef CPEQ_BASE_HASH_H
#define CPEQ_BASE_HASH_H

#include <stddef.h>

typedef struct cp_hash cp_hash;

enum { CP_HASH_TEXT = 65 }; /* 64 hexadecimal digits and the end */

cp_hash *cp_hash_open(void);
void cp_hash_add(cp_hash *hash, const void *bytes, size_t count);
void cp_hash_close(cp_hash *hash, char text[CP_HASH_TEXT]); /* writes the digest and frees */

#endif
