/// Redis over our own event loops: hiredis formats commands and reads replies; connections, deadlines and TLS are ours.
enum RedisModule {}
