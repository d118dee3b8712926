package demo

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Terminal control sequences (ECMA-48, and xterm's for the alternate screen).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // alternate screen, cursor hidden
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// A screen shows frames on a terminal, each replacing the previous one. It uses the terminal's alternate
// screen, so that the previous content reappears at the end.
type screen struct {
	out  io.Writer
	size func() (width, height int)
	buf  []byte
}

// newScreen returns the screen of a terminal, or nil if f cannot show frames.
func newScreen(f *os.File) *screen {
	if term := os.Getenv("TERM"); term == "" || term == "dumb" {
		return nil
	}
	size := func() (int, int) {
		ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
		if err != nil || ws.Col == 0 || ws.Row == 0 {
			return defaultWidth, defaultHeight
		}
		return int(ws.Col), int(ws.Row)
	}
	if _, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err != nil { // not a terminal
		return nil
	}
	return &screen{out: f, size: size}
}

// Assumed size of a terminal that does not report it.
const (
	defaultWidth  = 80
	defaultHeight = 24
)

func (s *screen) enter() error { return s.write([]byte(enterScreen)) }

func (s *screen) leave() error { return s.write([]byte(leaveScreen)) }

// show replaces the screen's content by a frame, whose lines the caller has fitted to the width. Lines past
// the height are omitted.
func (s *screen) show(frame []byte, height int) error {
	s.buf = append(s.buf[:0], toTop...)
	n := 0
	for line := range bytes.Lines(frame) {
		if n++; n > height {
			break
		}
		if n > 1 {
			s.buf = append(s.buf, "\r\n"...)
		}
		s.buf = append(s.buf, bytes.TrimSuffix(line, []byte("\n"))...)
		s.buf = append(s.buf, clearLine...)
	}
	s.buf = append(s.buf, clearBelow...)
	return s.write(s.buf)
}

func (s *screen) write(p []byte) error {
	_, err := s.out.Write(p)
	return err
}
