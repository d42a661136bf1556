#include "base/hash.h"

#include "base/status.h"

#include <openssl/evp.h>
#include <stdio.h>

/* A cp_hash is libcrypto's context; a digest of bytes in memory can only fail where memory fails. */
static EVP_MD_CTX *context_of(cp_hash *hash)
{
    return (EVP_MD_CTX *)hash;
}

cp_hash *cp_hash_open(void)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    cp_check(context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1, "libcrypto gives no sha256");
    return (cp_hash *)context;
}

void cp_hash_add(cp_hash *hash, const void *bytes, size_t count)
{
    cp_check(EVP_DigestUpdate(context_of(hash), bytes, count) == 1, "sha256 of %zu bytes", count);
}

void cp_hash_close(cp_hash *hash, char text[CP_HASH_TEXT])
{
    enum { DIGEST_BYTES = (CP_HASH_TEXT - 1) / 2 };
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int bytes = 0;
    cp_check(EVP_DigestFinal_ex(context_of(hash), digest, &bytes) == 1 && bytes == DIGEST_BYTES,
             "a sha256 of %u bytes", bytes);
    for (int i = 0; i < DIGEST_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    EVP_MD_CTX_free(context_of(hash));
}
