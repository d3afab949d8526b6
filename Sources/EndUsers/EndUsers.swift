/// From verified claims to the end-user ID that January knows the person by.
///
/// Shapes: an ``EndUserMapping`` is made from the `end_user_id` section once and is immutable; ``EndUserID`` is 1 to 64 bytes of UTF-8,
/// compared byte for byte. Errors: ``EndUserError`` says whether the session names nobody (a matter of this session) or the mapping made
/// something January would refuse (a matter of the configuration); its reasons are bounded and hold no claim value.
/// Two different people never get one ID: what could make two values equal (normalisation, trimming, case folding, ambiguous
/// concatenation) is not done, or refused when the configuration is read.
enum EndUsersModule {}
