package main

import (
	"fmt"
	"log/slog"

	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/querylog"
)

// newQueryLog makes the query log that the --log-… options ask for. Without --log-file the
// ring in memory is all there is.
func newQueryLog(c config.QueryLog, data *dataDir, log *slog.Logger) (*querylog.Logger, error) {
	o := querylog.Options{
		RingBytes:     int(c.RingBytes),
		RingRedaction: redactionOf(c.Redact),
		OriginalText:  c.Original,
		MaxText:       int(c.MaxText),
		MaxBind:       int(c.MaxValue),
		Filter:        c.Filter,
		SeqFile:       data.file("querylog.seq"),
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
	l, err := querylog.New(o)
	if err != nil {
		return nil, fmt.Errorf("query log: %w", err)
	}
	return l, nil
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
