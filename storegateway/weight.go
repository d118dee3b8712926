package storegateway

// HeaderBytes is what the loaded index headers of all blocks take on the heap. It looks at each
// block: it is for scrapes.
func (g *Gateway) HeaderBytes() (n int64) {
	for _, t := range g.current().tenants {
		for _, b := range t.blocks {
			n += b.data.HeapBytes()
		}
	}
	return n
}

// FrameBytes is what frames take that wait for the next request. Those in use are in the quotas of
// their queries.
func (a *StoreAPI) FrameBytes() int64 {
	a.frames.mu.Lock()
	defer a.frames.mu.Unlock()
	return int64(len(a.frames.idle)) * frameBytes
}
