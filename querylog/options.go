package querylog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// Options configures a Logger.
type Options struct {
	Sinks []SinkOptions

	// Sampling and Filter choose the entries to log, for all sinks. Both apply before formatting; an entry
	// that the filter rejects is not counted.
	Sampling Sampling
	Filter   Filter

	// Fields are the fields that the filter of a stream may name; nil: any.
	Fields []string

	// RingBytes is the size of the in-memory ring for ServeHTTP, rounded down to a power of two: 0 means
	// 4 MiB, a negative number no ring.
	RingBytes     int
	RingRedaction Redaction

	// OriginalText writes a statement's original text in addition to the normalized one.
	OriginalText bool

	// MaxText and MaxBind bound the bytes written of a statement's text and of one bind variable; 0 means
	// 1 MiB and 256.
	MaxText, MaxBind int

	// Boot identifies this run of the process in each line. Empty: random.
	Boot string

	// SeqFile is a file of 4 KiB in which the number of the last line survives the process, even if it is
	// killed. Each boot then starts with a line of kind "start" with the number of lines of the previous
	// boot, written or not. Put it into a data directory where no other program truncates it: truncation
	// would crash the process. Empty: none.
	SeqFile string

	// FlushBytes and FlushAfter bound the size and age of buffered lines before they go to the sinks; 0 means
	// 64 KiB and 1 s.
	FlushBytes int
	FlushAfter time.Duration

	// Slog receives messages about sinks that fail and recover, at most a few per minute. Nil: slog.Default.
	Slog *slog.Logger
}

// SinkOptions configures one output.
type SinkOptions struct {
	// Path is a file, or "-" for standard output. Empty: lines go to Writer.
	Path   string
	Writer io.Writer

	Name      string // in Stats and dropped records; empty: Path
	Format    Format
	Redaction Redaction

	// QueueBytes bounds the memory of batches that wait for a slow sink; further batches are dropped and
	// counted. 0 means 4 MiB.
	QueueBytes int

	// Mode is the mode of new files; 0 means 0600, because the log contains user data.
	Mode fs.FileMode

	Rotation Rotation // of files
}

// defaultFileMode is the mode of new files.
const defaultFileMode = fs.FileMode(0o600)

// Validate returns an error if o is invalid.
func (o *Options) Validate() error {
	errs := []error{o.Sampling.validate()}
	if o.RingRedaction > RedactAll {
		errs = append(errs, fmt.Errorf("%v of the ring is unknown", o.RingRedaction))
	}
	if o.MaxText < 0 || o.MaxBind < 0 || o.FlushBytes < 0 || o.FlushAfter < 0 {
		errs = append(errs, errors.New("a limit is negative"))
	}
	if o.RingBytes > 0 && o.RingBytes < 4<<10 {
		errs = append(errs, fmt.Errorf("ring of %d bytes: want at least 4096, or a negative number for none", o.RingBytes))
	}
	if o.SeqFile != "" && len(o.Boot) > maxSeqBoot {
		errs = append(errs, fmt.Errorf("boot is %d bytes long: want at most %d", len(o.Boot), maxSeqBoot))
	}
	names := map[string]bool{}
	for i, s := range o.Sinks {
		if err := s.validate(); err != nil {
			errs = append(errs, fmt.Errorf("log sink %d: %w", i+1, err))
			continue
		}
		if name := s.name(); names[name] {
			errs = append(errs, fmt.Errorf("log sink %d: there is a sink %q already", i+1, name))
		} else {
			names[name] = true
		}
	}
	return errors.Join(errs...)
}

func (s *SinkOptions) validate() error {
	switch {
	case (s.Path == "") == (s.Writer == nil):
		return errors.New("want a path or a writer, and not both")
	case s.Format > Text:
		return fmt.Errorf("%v is unknown", s.Format)
	case s.Redaction > RedactAll:
		return fmt.Errorf("%v is unknown", s.Redaction)
	case s.QueueBytes < 0:
		return errors.New("the queue's size is negative")
	case (s.Path == "" || s.Path == "-") && s.Rotation != Rotation{}:
		return errors.New("only a file can be rotated")
	}
	return errors.Join(s.Rotation.validate(), s.checkDirectory())
}

// checkDirectory returns an error unless the file's directory is one.
func (s *SinkOptions) checkDirectory() error {
	if s.Path == "" || s.Path == "-" {
		return nil
	}
	dir := filepath.Dir(s.Path)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open %s: directory %s does not exist: create it, or choose another path", s.Path, dir)
	case err != nil:
		return fmt.Errorf("open %s: %w", s.Path, err)
	case !info.IsDir():
		return fmt.Errorf("open %s: %s is not a directory", s.Path, dir)
	}
	return nil
}

func (s *SinkOptions) name() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Path != "":
		return s.Path
	}
	return "writer"
}

// open opens the sink's output.
func (s *SinkOptions) open(log *slog.Logger) (output, error) {
	switch s.Path {
	case "":
		return &stream{w: s.Writer}, nil
	case "-":
		return &stream{w: os.Stdout}, nil
	}
	return openFile(s.Path, cmp.Or(s.Mode, defaultFileMode), s.Rotation, log)
}
