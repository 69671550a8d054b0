// Which signals were ignored when this program began: nohup's SIGHUP, a shell's SIGINT for a job in the background. They shall stay so.
#pragma once

namespace troupe::tool {

// It need not be ignored any more: UCX takes SIGHUP as soon as it is loaded.
bool ignored_at_start(int signal);

}  // namespace troupe::tool
