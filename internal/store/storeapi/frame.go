package storeapi

import (
	"sync"

	"google.golang.org/grpc/mem"
)

// frameBytes is the size of a frame: large enough to spread gRPC's cost per message over hundreds of chunks,
// small enough to stay in a core's cache between encoding and sending.
const frameBytes = 256 << 10

// maxIdleFrames bounds the frames kept for later requests.
const maxIdleFrames = 16

// A frame is a buffer that messages of a stream are appended to and that gRPC sends them from. The writer and
// each unsent message have a reference; the last release returns the frame to its pool.
type frame struct {
	buf      []byte // full length; the writer tracks the bytes written
	root     mem.Buffer
	messages []encodedMessage // messages in the frame, which gRPC reads until they are sent
	home     *framePool
	sent     chan<- struct{} // receives a value when the last reference is released; nil: no waiter
}

// An encodedMessage is an encoded message of a stream.
type encodedMessage struct{ buffers [1]mem.Buffer }

// message returns the message in bytes i to j of the frame, for the codec.
func (f *frame) message(i, j int) *encodedMessage {
	f.messages = append(f.messages, encodedMessage{[1]mem.Buffer{f.root.Slice(i, j)}})
	return &f.messages[len(f.messages)-1]
}

// release drops the writer's reference.
func (f *frame) release() { f.root.Free() }

// Get makes a frame the mem.BufferPool of its buffer. It is never called, since the whole frame is one
// buffer.
func (f *frame) Get(int) *[]byte { panic("BUG: storeapi: a frame lends one buffer") }

// Put is called by gRPC when the last reference is released.
func (f *frame) Put(*[]byte) {
	f.root = nil
	sent := f.sent
	f.sent = nil
	if f.home != nil {
		f.home.put(f)
	}
	if sent != nil {
		sent <- struct{}{} // capacity 1, and its stream has one frame
	}
}

// A framePool keeps a few idle frames. Not every frame returns to it: those of a connection that broke during
// a send are left to the garbage collector.
type framePool struct {
	mu   sync.Mutex
	idle []*frame
}

func newFramePool() *framePool { return &framePool{idle: make([]*frame, 0, maxIdleFrames)} }

// get returns a frame of at least n bytes. A frame larger than frameBytes is allocated and not kept.
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
	clear(f.messages)
	f.messages = f.messages[:0]
	if invariants {
		overwrite(f.buf)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) < maxIdleFrames {
		p.idle = append(p.idle, f)
	}
}

// overwrite overwrites the bytes of a released frame, so that a use after release is noticed.
func overwrite(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}

// FrameBytes returns the bytes of idle frames. Frames in use are charged to their queries.
func (a *API) FrameBytes() int64 {
	a.frames.mu.Lock()
	defer a.frames.mu.Unlock()
	return int64(len(a.frames.idle)) * frameBytes
}
