package copier

import "os"

// enter notes what the run is at.
func (r *run) enter(p RunPhase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = p
}

// status is what the run tells of itself while it is at work.
func (r *run) status() Status {
	s := Status{
		Version: StatusVersion, PID: os.Getpid(), From: r.from.Addr(), To: r.o.To.Addr, Started: r.started,
		Tables: []TableStatus{}, Throttle: r.pacer.status(), Waits: r.waits.status(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Phase = r.phase
	s.Progress = r.progress()
	for i, t := range r.tables {
		ts := TableStatus{Source: t.spec.source(), Target: t.spec.target(), Phase: string(copying), RowsEstimate: t.source.RowsEstimate}
		if r.machine != nil {
			m := &r.machine.tables[i]
			ts.Phase, ts.Rows, ts.Bytes, ts.Chunks, ts.ChunksCopied = string(m.phase), r.rows[i], r.bytes[i], m.chunks, m.done
		}
		s.Tables = append(s.Tables, ts)
	}
	if r.following != nil {
		s.Follow = r.following()
	}
	if r.verifying != nil {
		s.Verify = r.verifying()
	}
	return s
}

// told are what a control socket may do to the run; end stops it with a cause.
func (r *run) told(end func(error)) controlled {
	return controlled{
		status: r.status, change: r.pacer.change, observe: r.o.Observe,
		abort: func() { end(ErrAborted) },
		finish: func() error {
			r.mu.Lock()
			finish := r.finish
			r.mu.Unlock()
			switch {
			case finish != nil:
			case r.o.Follow:
				return errNotYet
			default:
				return errNotFollowing
			}
			finish()
			return nil
		},
	}
}
