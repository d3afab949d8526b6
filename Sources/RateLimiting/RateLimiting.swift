/// Who may ask how often: the limits, their stores, and the client address they count by.
enum RateLimitingModule {}
