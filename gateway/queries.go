package gateway

import (
	"unsafe"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/sizegen/heapsize"
)

// Like read buffers, queries belong to a loop while no session has a command in progress: waiting sessions have
// none, and active ones reuse the most recently used, which are in the CPU's caches. A session with private read
// buffers has a private query.

// newQuery returns a query for a login.
func newQuery(srv *Server) *query {
	q := &query{}
	q.weigh(srv)
	return q
}

// giveQuery lends the session's query to the loop. No statement is in progress.
func (s *session) giveQuery() {
	q := s.query
	s.query, q.msg = nil, message{}
	if len(s.readers.queries) >= maxFreeReads {
		s.srv.queryBytes.Add(-q.charged)
		return
	}
	s.readers.queries = append(s.readers.queries, q)
}

// takeQuery undoes giveQuery.
func (s *session) takeQuery() {
	n := len(s.readers.queries)
	if n == 0 {
		s.query = newQuery(s.srv)
		return
	}
	s.query = s.readers.queries[n-1]
	s.readers.queries = s.readers.queries[:n-1]
}

// dropQuery leaves the query of a session that ends to the garbage collector: a panic may have left anything in it.
func (s *session) dropQuery() {
	if q := s.query; q != nil {
		s.srv.queryBytes.Add(-q.charged)
	}
}

// clear drops all views and the digester's text.
func (q *query) clear() {
	q.rec = querylog.Record{}
	q.resp.Last = nil
	clear(q.values[:cap(q.values)])
	clear(q.names[:cap(q.names)])
	q.digester.Reset(0)
}

// bytesOf returns the bytes of the buffers, unrounded.
func (q *query) bytesOf() int {
	n := cap(q.tagText) + cap(q.tagEnds) + cap(q.tagList) + cap(q.values) + cap(q.names)
	for _, size := range q.digester.HeapObjects() {
		n += size
	}
	return n
}

// weigh updates the server's account to the query's current heap bytes. Called between commands, it costs a few
// nanoseconds if nothing has grown. It does not allocate.
func (q *query) weigh(srv *Server) {
	n := q.bytesOf()
	if n == q.weighed && q.charged != 0 {
		return
	}
	q.weighed = n
	bytes := heapsize.Object(unsafe.Sizeof(*q), true)
	for _, size := range q.digester.HeapObjects() {
		bytes += heapsize.Object(uintptr(size), false)
	}
	bytes += heapsize.Bytes(q.tagText) + heapsize.Array(uintptr(cap(q.tagEnds)), unsafe.Sizeof(int(0)), false) +
		heapsize.Array(uintptr(cap(q.tagList)), unsafe.Sizeof(querylog.Tag{}), true) +
		heapsize.Array(uintptr(cap(q.values)), unsafe.Sizeof(mysqlwire.BinaryValue{}), true) +
		heapsize.Array(uintptr(cap(q.names)), unsafe.Sizeof([]byte(nil)), true)
	srv.queryBytes.Add(int64(bytes) - q.charged)
	q.charged = int64(bytes)
}
