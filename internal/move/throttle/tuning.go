package throttle

import "time"

// A Tuning is how much of a copy, a comparison or a dump is done at a time, and how long a server that does not respond is awaited.
type Tuning struct {
	Workers    int           // chunks at a time
	ChunkBytes int64         // approximate bytes of rows per chunk, and so per transaction
	Patience   time.Duration // with an unreachable server
	MaxViewAge time.Duration // of views of the source while changes are followed
}
