/// Public keys made once with `openssl`; nobody kept the private ones.
enum KeyFixtures {
    static let rsa = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA+Cw3iy5r1ZHcNeK02XhL
        EVTcu578XuGyPb44vmLrAY6dh3P+3MLU2g6VkKJfxyvB5WTuXJ5LC2RFTgDDCUr8
        XvTyt0b4cjwHfQ7x8+42D4t4BK0m6JndMNqxiS/pcs1omKh+0faQ09zhMkDQriOB
        zNZnvDFA/VSeyjp9JkWCyww92ZcJRSRNBME8FAiJUXBPoqIWV09QHXdBw+9623Kh
        FxnnQ/znn7TWpQrvZrvxDqdTFZubJ9cCaj5voE+7cyb6GFCnzF374b5DJLsP2m0g
        4ZY1XBSqyVhV6rn3Yh+g7ebs2jm9vevoUUgUw7nZ59DazOszH2StV6y7lD8KA4V3
        TwIDAQAB
        -----END PUBLIC KEY-----
        """

    static let rsaPKCS1 = """
        -----BEGIN RSA PUBLIC KEY-----
        MIIBCgKCAQEA+Cw3iy5r1ZHcNeK02XhLEVTcu578XuGyPb44vmLrAY6dh3P+3MLU
        2g6VkKJfxyvB5WTuXJ5LC2RFTgDDCUr8XvTyt0b4cjwHfQ7x8+42D4t4BK0m6Jnd
        MNqxiS/pcs1omKh+0faQ09zhMkDQriOBzNZnvDFA/VSeyjp9JkWCyww92ZcJRSRN
        BME8FAiJUXBPoqIWV09QHXdBw+9623KhFxnnQ/znn7TWpQrvZrvxDqdTFZubJ9cC
        aj5voE+7cyb6GFCnzF374b5DJLsP2m0g4ZY1XBSqyVhV6rn3Yh+g7ebs2jm9vevo
        UUgUw7nZ59DazOszH2StV6y7lD8KA4V3TwIDAQAB
        -----END RSA PUBLIC KEY-----
        """

    static let rsaCertificate = """
        -----BEGIN CERTIFICATE-----
        MIIC+TCCAeGgAwIBAgIUFyDEcituyEr5Lc9K9GQc+Kd6TWkwDQYJKoZIhvcNAQEL
        BQAwDDEKMAgGA1UEAwwBeDAeFw0yNjExMzAwNjQyMzRaFw0yNjEyMDEwNjQyMzRa
        MAwxCjAIBgNVBAMMAXgwggEiMA0GCSqGSIb3DQEBAQUAA4IBDwAwggEKAoIBAQD4
        LDeLLmvVkdw14rTZeEsRVNy7nvxe4bI9vji+YusBjp2Hc/7cwtTaDpWQol/HK8Hl
        ZO5cnksLZEVOAMMJSvxe9PK3RvhyPAd9DvHz7jYPi3gErSbomd0w2rGJL+lyzWiY
        qH7R9pDT3OEyQNCuI4HM1me8MUD9VJ7KOn0mRYLLDD3ZlwlFJE0EwTwUCIlRcE+i
        ohZXT1Add0HD73rbcqEXGedD/OeftNalCu9mu/EOp1MVm5sn1wJqPm+gT7tzJvoY
        UKfMXfvhvkMkuw/abSDhljVcFKrJWFXqufdiH6Dt5uzaOb296+hRSBTDudnn0NrM
        6zMfZK1XrLuUPwoDhXdPAgMBAAGjUzBRMB0GA1UdDgQWBBQpn2nDAV29bk6T9UIL
        +CgKgnEeSDAfBgNVHSMEGDAWgBQpn2nDAV29bk6T9UIL+CgKgnEeSDAPBgNVHRMB
        Af8EBTADAQH/MA0GCSqGSIb3DQEBCwUAA4IBAQDYfNNDTNu7W4XZ9LZZ6oj5TejP
        vbtleo8AcVmfPMgTdC9zCHrEqgI+7RKumnHQf2AgRjPloN49rNDppFiD8Nu5O6uh
        dEoDbJeaKY7tObAedSE1QsDDIdwtW7gCydSXBfgYfefCU/yPY0kVCAI0UHPM8nXG
        kv9IlVVvMgFdoqooFYQsQa0zJsOg86D1WpMb51lE1AcathnsgBA0eSVY1ALiSEXG
        UAbch62RftGf5AJd8wDRRLawW5zCAzw3EDcOmrtx5/mPB9x2SWaLQafJXai8CvfY
        cBrWvyHLBO0yvHNH2WQuTl4z1XxIqyAk4TcI3YOrfcrh5KrE0oo0YfV+NEfp
        -----END CERTIFICATE-----
        """

    static let rsa1024 = """
        -----BEGIN PUBLIC KEY-----
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDBa/nxzUfXEUUG5dgz4BXfRdI8
        qx0/dLWvXGadX0WwHT/3FlmYdBfTMsqgWowNcZFwwJ3yM7QbgxvX5pW0YXqooQj7
        cQXdcsN8BAQ4pG9HVh64vBClRiqDw06a4KXqJPOj8HNc/TSMVbXmP/h9Xr5+pVaM
        zq0W2GU8uLif9OAblwIDAQAB
        -----END PUBLIC KEY-----
        """

    static let p256 = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAERK0wTxHGsbENVhz8oLkO1RtD/QoL
        XUlF8uoD//zG9DA7DJhbmSYs2n2MfGBddomeOt89D31QxFa7v2+fmSD3hQ==
        -----END PUBLIC KEY-----
        """

    static let p256Compressed = """
        -----BEGIN PUBLIC KEY-----
        MDkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDIgADRK0wTxHGsbENVhz8oLkO1RtD/QoL
        XUlF8uoD//zG9DA=
        -----END PUBLIC KEY-----
        """

    static let p256Explicit = """
        -----BEGIN PUBLIC KEY-----
        MIIBSzCCAQMGByqGSM49AgEwgfcCAQEwLAYHKoZIzj0BAQIhAP////8AAAABAAAA
        AAAAAAAAAAAA////////////////MFsEIP////8AAAABAAAAAAAAAAAAAAAA////
        ///////////8BCBaxjXYqjqT57PrvVV2mIa8ZR0GsMxTsPY7zjw+J9JgSwMVAMSd
        NgiG5wSTamZ44ROdJreBn36QBEEEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5
        RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9QIhAP////8AAAAA
        //////////+85vqtpxeehPO5ysL8YyVRAgEBA0IABEStME8RxrGxDVYc/KC5DtUb
        Q/0KC11JRfLqA//8xvQwOwyYW5kmLNp9jHxgXXaJnjrfPQ99UMRWu79vn5kg94U=
        -----END PUBLIC KEY-----
        """

    static let secp256k1 = """
        -----BEGIN PUBLIC KEY-----
        MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAEDrEiv/XdtWarqbQFYq0Hn56A4Fv4hW08
        lp2HqVxtJy/AlNwp4DzirL5gjZO/wvl1Yu2XqpAvXbDmXw0EK2+6Bg==
        -----END PUBLIC KEY-----
        """

    static let ed25519 = """
        -----BEGIN PUBLIC KEY-----
        MCowBQYDK2VwAyEAaZjl9emde1NEKlY7IISifnvxljCEh4380zLBFQl7aYU=
        -----END PUBLIC KEY-----
        """

    static let ed448 = """
        -----BEGIN PUBLIC KEY-----
        MEMwBQYDK2VxAzoA+2gqP7iPWeokQhIUYK3jr+Qnjbn1Rq1p9iOAIBwDKgCXE7NT
        usZlvSAwvVP5ji4m2N2G6PhEoDiA
        -----END PUBLIC KEY-----
        """

    static let rsaPSS = """
        -----BEGIN PUBLIC KEY-----
        MIIBIDALBgkqhkiG9w0BAQoDggEPADCCAQoCggEBALah2WAYfBmjHd11g6q/k08+
        OABLiaXsFyFWxGIfekzDexvLXG9qQ8fkQBXXyxR9gYku9hWUJeQ15EdX9sMQPDPl
        4mIlpM8xwXsO4EqvdPHz/XtnqlTsN4pwcLiwtcSqNZWO/bGWOhZb5T2sD2GWoT57
        cOI8JMeWYpPcLLGj/bMEC//RAdIzByX2F9R77ma/wnLw8TWcxzMGGwWz4XpifimP
        9rrLx9FdfPY1bzsicWrUskNgtth4vp6FBjRElYw8PR0g5tuheqQSs2Mciob5VO6W
        No9CqDF0O3TMLFP47RfZRFnODUHrO+7qQZt5BLZ0o6/GdJmXEPo+M/H2qn6FQgkC
        AwEAAQ==
        -----END PUBLIC KEY-----
        """
}
