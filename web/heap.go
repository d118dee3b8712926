package web

import "sync/atomic"

// templateBytes is what the templates of all pages take of the heap, from the first page on, as TestTemplateBytes finds it.
const templateBytes = 860 << 10

// templatesMade says whether they do.
var templatesMade atomic.Bool //nolint:gochecknoglobals // as the templates are

// HeapBytes is what pages hold: their templates from the first look on, and for a second what was shown.
func (s *Server) HeapBytes() int64 {
	s.cache.mu.Lock()
	held := int64(s.cache.bytes)
	s.cache.mu.Unlock()
	if templatesMade.Load() {
		held += templateBytes
	}
	return held
}
