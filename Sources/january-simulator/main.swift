import Glibc
import JanuarySimulator

exit(SimulatorProgram.run(Array(CommandLine.arguments.dropFirst())))
