package main

import (
	"fmt"
	"log/slog"

	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/querylog"
)

var seqPiece = localstate.Piece{Name: "query log sequence", Lost: "how many records the previous process logged last and a kill lost"}

// seqFile returns the path of the sequence file, after a damaged one was set aside; "" when there
// can be none.
func seqFile(data *dataDir) string {
	path := data.file("querylog.seq")
	if path == "" {
		return ""
	}
	if err := querylog.CheckSeqFile(path); err != nil {
		if _, ok := data.state.SetAside(path, seqPiece, err); !ok {
			return ""
		}
	}
	return path
}

// checkQueryLog reports wrong --log-… options, before newQueryLog opens files.
func checkQueryLog(c config.QueryLog, log *slog.Logger) error {
	o := queryLogOptions(c, log)
	if err := o.Validate(); err != nil {
		return fmt.Errorf("query log: %w", err)
	}
	return nil
}

// newQueryLog makes the query log that the --log-… options ask for. Without --log-file the
// ring in memory is all there is.
func newQueryLog(c config.QueryLog, data *dataDir, log *slog.Logger) (*querylog.Logger, error) {
	o := queryLogOptions(c, log)
	o.SeqFile = seqFile(data)
	l, err := querylog.New(o)
	if err != nil {
		return nil, fmt.Errorf("query log: %w", err)
	}
	if o.SeqFile != "" {
		data.state.Created(o.SeqFile, localstate.File{Piece: seqPiece})
	}
	return l, nil
}

// queryLogOptions returns the options of the query log without its sequence file.
func queryLogOptions(c config.QueryLog, log *slog.Logger) querylog.Options {
	o := querylog.Options{
		RingBytes:     int(c.RingBytes),
		RingRedaction: redactionOf(c.Redact),
		OriginalText:  c.Original,
		MaxText:       int(c.MaxText),
		MaxBind:       int(c.MaxValue),
		Filter:        c.Filter,
		Slog:          log,
		Sampling: querylog.Sampling{
			SlowerThan:   c.SlowerThan,
			MoreRowsThan: uint64(c.MoreRows),
			Errors:       c.ErrorsOnly,
			OneIn:        uint32(c.OneIn),
			PerDigest:    uint32(c.PerDigest),
		},
	}
	if c.File != "" {
		sink := querylog.SinkOptions{
			Path:      c.File,
			Mode:      c.FileMode,
			Redaction: redactionOf(c.Redact),
			Rotation: querylog.Rotation{
				Bytes: int64(c.RotateSize), Age: c.RotateAge, Keep: c.RotateKeep, Compression: compressionOf(c.Compress),
			},
		}
		if c.Format == config.LogText {
			sink.Format = querylog.Text
		}
		o.Sinks = append(o.Sinks, sink)
	}
	return o
}

func redactionOf(r config.LogRedaction) querylog.Redaction {
	switch r {
	case config.RedactNone:
		return querylog.RedactNone
	case config.RedactAll:
		return querylog.RedactAll
	}
	return querylog.RedactLiterals
}

func compressionOf(c config.LogCompression) querylog.Compression {
	switch c {
	case config.CompressGzip:
		return querylog.Gzip
	case config.CompressZstd:
		return querylog.Zstd
	}
	return querylog.Plain
}
