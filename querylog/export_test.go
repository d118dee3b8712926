package querylog

// Hooks of the external tests.

// Flush hands the buffered records to the sinks.
func (l *Logger) Flush() { l.flush() }

// LastSeq returns the number of the last line.
func (l *Logger) LastSeq() uint64 { return l.lastSeq() }

// TimerArmed reports whether the timer that flushes is running.
func (l *Logger) TimerArmed() bool { return l.armed.Load() }

// LargestBuffer returns the capacity of the largest line buffer that l keeps.
func (l *Logger) LargestBuffer() (kept int) {
	for _, b := range l.store.free {
		kept = max(kept, cap(b.buf))
	}
	for i := range l.stripes {
		for _, sl := range l.stripes[i].lanes {
			if sl.b != nil {
				kept = max(kept, cap(sl.b.buf))
			}
		}
	}
	return kept
}

// AppendAsText appends a JSON line as a text line.
func AppendAsText(dst, line, scratch []byte) ([]byte, []byte, error) {
	return appendAsText(dst, line, scratch)
}
