package chunks

import "sync"

// A BytesPool pools slices in buckets whose sizes double.
type BytesPool struct {
	sizes   []int
	buckets []sync.Pool
}

// NewBytesPool returns a pool with sizes from least to most.
func NewBytesPool(least, most int) *BytesPool {
	p := new(BytesPool)
	for n := least; n <= most; n *= 2 {
		p.sizes = append(p.sizes, n)
	}
	p.buckets = make([]sync.Pool, len(p.sizes))
	return p
}

// Get returns an empty slice with capacity for n bytes.
func (p *BytesPool) Get(n int) *[]byte {
	for i, size := range p.sizes {
		if n > size {
			continue
		}
		if b, ok := p.buckets[i].Get().(*[]byte); ok {
			*b = (*b)[:0]
			return b
		}
		b := make([]byte, 0, size)
		return &b
	}
	b := make([]byte, 0, n)
	return &b
}

// Put returns a slice to the pool.
func (p *BytesPool) Put(b *[]byte) {
	for i, size := range p.sizes {
		if cap(*b) <= size {
			p.buckets[i].Put(b)
			return
		}
	}
}
