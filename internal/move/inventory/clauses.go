package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// isWord reports whether the next token is a name or a keyword.
func (h *header) isWord() bool {
	return h.tok.Kind == sqldigest.KindIdent || h.tok.Kind == sqldigest.KindQuotedIdent || h.tok.Kind == sqldigest.KindKeyword
}

// isName reports whether the next token is a name, or a part of that of an account.
func (h *header) isName() bool {
	switch h.tok.Kind {
	case sqldigest.KindString, sqldigest.KindHost, sqldigest.KindVariable:
		return true
	}
	return h.isWord() || h.word() == "@"
}

// isPlainComment reports whether the next token is a comment that all servers skip.
func (h *header) isPlainComment() bool {
	text, ok := strings.CutPrefix(h.word(), "/*")
	return ok && h.tok.Kind == sqldigest.KindComment && !strings.Contains(text, "/*") && !strings.HasPrefix(text, "!") && !strings.HasPrefix(text, "M!")
}

// status consumes the header of an event from its schedule to DO, and returns the position of its status in the text. A comment
// is an error: one server skips it, and another executes it.
func (h *header) status() (start, end int, err error) {
	for !h.accept("ON", "COMPLETION") { // EVERY 1 DAY STARTS '…' ENDS '…'
		if h.accept("DO") || !h.isWord() && h.tok.Kind != sqldigest.KindNumber && h.tok.Kind != sqldigest.KindString {
			return 0, 0, fmt.Errorf("ON COMPLETION is expected, not %.40q", h.word())
		}
		h.next()
	}
	h.accept("NOT")
	if err := h.require("PRESERVE"); err != nil {
		return 0, 0, err
	}
	start, end = h.tok.Start, h.tok.End
	if !h.accept("ENABLE") {
		if err := h.require("DISABLE"); err != nil {
			return 0, 0, err
		}
		if h.accept("ON") {
			end = h.tok.End
			if !h.accept("SLAVE") && !h.accept("REPLICA") {
				return 0, 0, fmt.Errorf("SLAVE or REPLICA is expected, not %.40q", h.word())
			}
		}
	}
	if h.accept("COMMENT") {
		if h.tok.Kind != sqldigest.KindString {
			return 0, 0, fmt.Errorf("a text is expected, not %.40q", h.word())
		}
		h.next()
	}
	return start, end, h.require("DO")
}

// disabledEvent returns the text of SHOW CREATE EVENT with DISABLE in place of its status.
func disabledEvent(text string, mode sqldigest.Mode) (string, error) {
	h := &header{text: text}
	h.lex.Reset([]byte(text), mode)
	for h.next(); h.isName() || h.word() == "=" || h.word() == "."; h.next() {
		if strings.EqualFold(h.word(), "ON") {
			break // SCHEDULE or COMPLETION: no part of the name
		}
	}
	h.accept("ON", "SCHEDULE")
	start, end, err := h.status()
	if err != nil {
		return "", fmt.Errorf("the definition of the event is of a form that is not known: %w: %.100q", err, text)
	}
	return text[:start] + "DISABLE" + text[end:], nil
}

// Options of sequences that have no effect outside of the sequence, and their engines.
//
//nolint:gochecknoglobals // lists
var (
	sequenceWords = strings.Fields(`AS TINYINT SMALLINT MEDIUMINT INT BIGINT UNSIGNED START RESTART WITH MINVALUE MAXVALUE NOMINVALUE NOMAXVALUE NO
		INCREMENT BY CACHE NOCACHE CYCLE NOCYCLE ENGINE COMMENT ROW_FORMAT PAGE_CHECKSUM CHECKSUM TRANSACTIONAL DELAY_KEY_WRITE STATS_PERSISTENT
		STATS_AUTO_RECALC STATS_SAMPLE_PAGES DEFAULT CHARSET CHARACTER SET COLLATE`)
	sequenceEngines = []string{"INNODB", "ARIA", "MYISAM", "ROCKSDB"}
)

// sequence checks the options of a sequence, which are also those of a table: neither a path nor a connection, and no engine that has one.
func (h *header) sequence() error {
	option := ""
	for ; h.tok.Kind != sqldigest.KindEOF; h.next() {
		word := strings.ToUpper(h.word())
		switch {
		case h.word() == ";":
			return errors.New("it has a second statement")
		case h.tok.Kind == sqldigest.KindNumber, h.tok.Kind == sqldigest.KindString && option == "COMMENT":
		case h.word() == "=", h.word() == "-", h.word() == "(" && option == "AS", h.word() == ")" && option == "AS", h.word() == ",":
			continue // the option is before it
		case !h.isWord() || h.tok.Kind == sqldigest.KindQuotedIdent:
			return fmt.Errorf("an option of a sequence is expected, not %.40q", h.word())
		case option == "ENGINE":
			if !slices.Contains(sequenceEngines, word) {
				return fmt.Errorf("it has the engine %.40q", h.word())
			}
		case option == "ROW_FORMAT", option == "CHARSET", option == "SET", option == "COLLATE":
		case !slices.Contains(sequenceWords, word):
			return fmt.Errorf("it has the option %.40q", h.word())
		default:
			option = word
			continue
		}
		option = ""
	}
	return nil
}
