package rowstream

import "github.com/taredb/tare/mysql/mysqlconn"

// Hooks of the external tests.

// Clients returns the connections of a snapshot.
func (s *Snapshot) Clients() []*mysqlconn.Client { return s.clients }

// Kept returns the bytes for which a reader of a snapshot keeps room: in its batch, and for the last wide row.
func Kept(r Reader) (batch, wide int) {
	x := r.(*reader)
	return cap(x.batch.Bytes), cap(x.wide.Bytes)
}
