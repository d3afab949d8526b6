import CommandLineTool
import Glibc

// Nothing is buffered, so nothing has to be flushed; and handlers that run at `exit` would take OpenSSL away from loops that still use it.
_exit(CommandLineTool.main())
