// Package netloop serves many connections by straight-line code on few threads, with event loops that
// bypass the runtime's poller.
//
//	group, err := netloop.New(netloop.Options{Loops: 2})
//	client, server := netloop.NewConn(nc1), netloop.NewConn(nc2) // also under crypto/tls
//	err = group.Go(func(t *netloop.Task) {
//		defer client.Close()
//		defer server.Close()
//		for {
//			n, err := client.Read(buf) // suspends the task, not a thread
//			...
//			t.Block(func() { ... }) // waits for anything else
//		}
//	}, hungUp, client, server)
//
// # Terms
//
// A task is a function that a loop runs as a coroutine (iter.Pull): it is suspended where its
// connections are not ready, and resumed where it stopped. A turn is the loop's work between two waits.
// A connection is on a loop between Go or Attach and Close or Detach; before and after, it is the
// net.Conn that it was created from.
//
// # Data flow
//
//	epoll ──events──► loop ──resume──► task ──Read, Write──► socket
//	                   ▲  ▲              │
//	 deadlines, Go ────┘  └── eventfd ◄──┴─ Block: an ordinary goroutine
//
// Each loop is a goroutine with an epoll instance, in which a descriptor is registered once, for both
// directions and hang-ups, edge-triggered. A task reads only after an event, until a read is short: reads
// that find nothing are rare. Writes are attempted immediately, and wait for an event only if the socket is
// full. An event carries the slot of its connection and the slot's generation, so that it never reaches
// another connection by the descriptor's number.
//
// # Contract
//
//   - Only its task may use a connection on a loop. Any goroutine may set deadlines, and one in the past
//     interrupts. Elsewhere, as within Block, Read and Write panic.
//   - A task must not wait for anything but its connections: not for a channel, a file or a contended
//     lock. Block is for such waits. A task that computes for long calls Yield, or computes in Block.
//   - After 256 KiB of reads and writes, where each call counts at least 4 KiB, other tasks get
//     their turn: a streaming task delays others by no more work than that. Spend counts other work.
//   - hungUp reports that a peer has closed its side, even if the task is waiting for another connection.
//   - A panic ends only its task and is reported; runtime.Goexit is not reported.
//   - Inspect visits tasks while they are suspended, on their loop: another goroutine can read what they own,
//     and they need neither locks nor atomics for it.
//
// # Cost
//
// A wait for a connection is two switches of coroutines; reads and writes do not allocate.
// The scheduler is involved only when a loop is idle. An idle task occupies the stack of its coroutine,
// at least 2 KiB, and 0.5 KiB of state.
//
// New raises GOMAXPROCS to more than twice the number of loops. A busy loop calls the scheduler every 5 ms; otherwise
// the runtime would consider its P stuck, and retake it in each of its waits. A loop that was idle needs a P: while others
// compute on all of them, such as requests for pages, it would wait for 10 ms and more, until the runtime interrupts one.
// With more Ps than CPUs the system's scheduler runs it in about a millisecond.
//
// # Limits
//
// Loops are available on Linux, amd64 and arm64 (make arm64 tests the latter). Elsewhere, without loops, and for
// connections without a descriptor, a task is an ordinary goroutine on the runtime's poller: the contract is the
// same, except that hungUp is not called, and the scheduler bounds the work.
package netloop
