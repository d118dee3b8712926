package gateway

import (
	"math"

	"golang.org/x/sys/unix"
)

// Descriptors: a session has two sockets; the rest of the process has logs, blocks and HTTP.
const (
	sessionFiles  = 2
	reservedFiles = 128
)

// openFiles returns the process's limit on open files.
func openFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}

// boundByFiles sets how many sessions the limit on open files leaves room for, and warns where
// that is less than what is configured.
func (s *Server) boundByFiles() {
	files := s.opts.OpenFiles
	s.maxByFiles = max((files-reservedFiles)/sessionFiles, 1)
	if n := s.opts.MaxConnections; n > files/sessionFiles {
		s.opts.Diag.Warn("open files limit is below twice --max-connections: clients are refused before it is reached",
			"limit", files, "max_connections", n, "accepted", s.maxByFiles)
	}
}
