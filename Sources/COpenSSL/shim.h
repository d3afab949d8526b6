// OpenSSL 3 for all cryptography and TLS. Macros and variadic functions are wrapped here, nothing else.
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

// OPENSSL_free is a macro that adds file and line.
static inline void COpenSSL_free(void *memory) { OPENSSL_free(memory); }

// Deprecated in OpenSSL 3 and kept there: docs/decisions/0035 says why these are used. The state is a plain value without memory of its own.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
static inline void COpenSSL_SHA256_init(SHA256_CTX *state) { SHA256_Init(state); }
static inline void COpenSSL_SHA256_update(SHA256_CTX *state, const void *bytes, size_t count) { SHA256_Update(state, bytes, count); }
static inline void COpenSSL_SHA256_final(unsigned char *digest, SHA256_CTX *state) { SHA256_Final(digest, state); }
#pragma clang diagnostic pop

// An expression of other macros, which Swift does not import.
static const int COpenSSL_EVP_PKEY_PUBLIC_KEY = EVP_PKEY_PUBLIC_KEY;
