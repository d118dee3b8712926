package server

import (
	"fmt"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/querylog"
)

var seqPiece = localstate.Piece{Name: "query log sequence", Lost: "how many records the previous process logged last and a kill lost"}

// seqFile returns the path of the sequence file, after setting a damaged one aside; "" if none can be used.
func (s *Server) seqFile() string {
	path := s.Data.File("querylog.seq")
	if path == "" {
		return ""
	}
	if err := querylog.CheckSeqFile(path); err != nil {
		if _, ok := s.Data.State.SetAside(path, seqPiece, err); !ok {
			return ""
		}
	}
	return path
}

// checkQueryLog validates the --log-… options, before OpenQueryLog opens files.
func (s *Server) checkQueryLog() error {
	o := s.queryLogOptions()
	if err := o.Validate(); err != nil {
		return fmt.Errorf("query log: %w", err)
	}
	return nil
}

// OpenQueryLog opens the query log of the --log-… options, which numbers its records in the data directory if there is
// one. Without --log-file it has only the ring in memory.
func (s *Server) OpenQueryLog() (err error) {
	o := s.queryLogOptions()
	o.SeqFile = s.seqFile()
	if s.Queries, err = querylog.New(o); err != nil {
		return fmt.Errorf("query log: %w", err)
	}
	if o.SeqFile != "" {
		s.Data.State.Created(o.SeqFile, localstate.File{Piece: seqPiece})
	}
	s.Metrics.MustRegister(NewQueryLogCollector(s.Queries))
	return nil
}

// queryLogOptions returns the options of the query log without its sequence file.
func (s *Server) queryLogOptions() querylog.Options {
	c := s.Options.Server.Log
	o := c.Options
	o.RingRedaction, o.Slog = c.Redact, s.Log
	o.Sampling.MoreRowsThan, o.Sampling.OneIn, o.Sampling.PerDigest = uint64(c.MoreRows), uint32(c.OneIn), uint32(c.PerDigest)
	if c.Sink.Path != "" {
		sink := c.Sink
		sink.Redaction = c.Redact
		o.Sinks = append(o.Sinks, sink)
	}
	return o
}
