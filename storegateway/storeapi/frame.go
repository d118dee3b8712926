package storeapi

import (
	"sync"

	"google.golang.org/grpc/mem"
)

// frameBytes is the size of a frame: large enough that what a message costs in gRPC is spread
// over hundreds of chunks, small enough to stay in a core's cache between being written by us
// and read by the transport.
const frameBytes = 256 << 10

// maxIdleFrames is how many frames wait for the next request.
const maxIdleFrames = 16

// A frame is a buffer that messages of a stream are written into, one behind the other, and that
// gRPC sends them from. Whoever writes and each message that is not sent hold a reference; with
// the last one it goes back to its pool.
type frame struct {
	buf     []byte // all of it is there; the writer knows how much it has written
	root    mem.Buffer
	answers []answer // the messages: gRPC reads them until they are sent
	home    *framePool
	sent    chan<- struct{} // gets a value when the last reference has ended; nil: nobody waits
}

// An answer is one message of a stream, already encoded.
type answer struct{ buffers [1]mem.Buffer }

// message returns the message that lies from byte i to byte j, for the codec.
func (f *frame) message(i, j int) *answer {
	f.answers = append(f.answers, answer{[1]mem.Buffer{f.root.Slice(i, j)}})
	return &f.answers[len(f.answers)-1]
}

// release ends the writer's reference.
func (f *frame) release() { f.root.Free() }

// Get makes a frame the mem.BufferPool of its buffer. It is not called: a frame is lent whole.
func (f *frame) Get(int) *[]byte { panic("BUG: storeapi: a frame lends one buffer") }

// Put is called by gRPC when the last reference has ended.
func (f *frame) Put(*[]byte) {
	f.root = nil
	sent := f.sent
	f.sent = nil
	if f.home != nil {
		f.home.put(f)
	}
	if sent != nil {
		sent <- struct{}{} // it has room for the one frame of its stream
	}
}

// A framePool keeps a few frames that nobody uses. It does not need to get each one back: those
// of a connection that broke while it was sending are left to the garbage collector.
type framePool struct {
	mu   sync.Mutex
	idle []*frame
}

func newFramePool() *framePool { return &framePool{idle: make([]*frame, 0, maxIdleFrames)} }

// get lends a frame of at least n bytes. One that is larger than usual is made and not kept.
func (p *framePool) get(n int) *frame {
	var f *frame
	if n > frameBytes {
		f = &frame{buf: make([]byte, n)}
	} else {
		p.mu.Lock()
		if last := len(p.idle) - 1; last >= 0 {
			f = p.idle[last]
			p.idle = p.idle[:last]
		}
		p.mu.Unlock()
		if f == nil {
			f = &frame{buf: make([]byte, frameBytes), home: p}
		}
	}
	f.root = mem.NewBuffer(&f.buf, f)
	return f
}

func (p *framePool) put(f *frame) {
	clear(f.answers)
	f.answers = f.answers[:0]
	if invariants {
		overwrite(f.buf)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) < maxIdleFrames {
		p.idle = append(p.idle, f)
	}
}

// overwrite makes what a frame held useless, so that a use of it shows.
func overwrite(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}

// FrameBytes returns the bytes of idle frames. Those in use are in the quotas of
// their queries.
func (a *API) FrameBytes() int64 {
	a.frames.mu.Lock()
	defer a.frames.mu.Unlock()
	return int64(len(a.frames.idle)) * frameBytes
}
