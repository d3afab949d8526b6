// Signs JWTs with RS256 or ES256 (RFC 7518 sections 3.3 and 3.4), as the key is: reads signing inputs, one a line, writes each with `.` and its signature.
//
//   sign PRIVATE_KEY.pem < inputs > tokens
#define _GNU_SOURCE
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    EVP_PKEY *key = file ? PEM_read_PrivateKey(file, NULL, NULL, NULL) : NULL;
    if (!key) return fprintf(stderr, "usage: sign PRIVATE_KEY.pem < inputs\n"), 64;
    char *line = NULL;
    size_t room = 0;
    ssize_t count;
    while ((count = getline(&line, &room, stdin)) > 0) {
        if (line[count - 1] == '\n') count--;
        unsigned char signature[1024], text[1400];
        size_t length = sizeof signature;
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        if (EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) != 1 ||
            EVP_DigestSign(context, signature, &length, (unsigned char *)line, count) != 1)
            return fprintf(stderr, "cannot sign\n"), 1;
        EVP_MD_CTX_free(context);
        if (EVP_PKEY_get_base_id(key) == EVP_PKEY_EC) {
            // JOSE has the two numbers side by side, 32 octets each.
            const unsigned char *position = signature;
            ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &position, (long)length);
            if (!pair || BN_bn2binpad(ECDSA_SIG_get0_r(pair), signature, 32) != 32 ||
                BN_bn2binpad(ECDSA_SIG_get0_s(pair), signature + 32, 32) != 32)
                return fprintf(stderr, "cannot sign\n"), 1;
            ECDSA_SIG_free(pair);
            length = 64;
        }
        int written = EVP_EncodeBlock(text, signature, length);
        while (written > 0 && text[written - 1] == '=') written--;
        for (int index = 0; index < written; index++) {
            if (text[index] == '+') text[index] = '-';
            if (text[index] == '/') text[index] = '_';
        }
        printf("%.*s.%.*s\n", (int)count, line, written, text);
    }
    return 0;
}
