package access

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/taredb/tare/internal/connlimit"
)

// A Denial is the reason for refusing a request.
type Denial struct {
	Status  int // 401, 403 or 429
	Account Account
	Need    Need
	crowded bool // the reason for a 429
}

// Text returns the error for the client, with the role that the path requires.
func (d Denial) Text(path string) string {
	if d.crowded {
		return "Too many passwords from this address are being checked: try again in " + loginPause.String() + "."
	}
	if d.Status == http.StatusTooManyRequests {
		return "Too many wrong passwords came from this address: try again in " + loginPause.String() + "."
	}
	if d.Status == http.StatusUnauthorized {
		return fmt.Sprintf("%s requires an account with %s.", path, d.Need)
	}
	if d.Account.Role >= d.Need.role {
		return fmt.Sprintf("%s requires %s; the account %q sees no statement texts.", path, d.Need, d.Account.Name)
	}
	return fmt.Sprintf("%s requires %s; the account %q has the role %s.", path, d.Need, d.Account.Name, d.Account.Role)
}

// Require returns h protected by a Need. Refused requests are passed to deny, after the headers of a 401 or 429
// are set. Calls that change state are logged, even refused ones.
func (g *Gate) Require(n Need, h http.Handler, deny func(http.ResponseWriter, *http.Request, Denial)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account, v := g.identify(r)
		r = r.WithContext(context.WithValue(r.Context(), accountKey{}, account))
		if n.changes {
			recorder := &StatusWriter{ResponseWriter: w}
			w = recorder
			defer g.record(r, account, recorder)
		}
		if v == accepted && account.May(n) {
			h.ServeHTTP(w, r)
			if recorder, ok := w.(*StatusWriter); ok {
				recorder.Returned()
			}
			return
		}
		d := Denial{Status: http.StatusForbidden, Account: account, Need: n}
		switch {
		case v == throttled || v == crowded:
			d.Status, d.crowded = http.StatusTooManyRequests, v == crowded
			w.Header().Set("Retry-After", strconv.Itoa(int(loginPause.Seconds())))
		case v == wrong || account.Name == Anonymous:
			d.Status = http.StatusUnauthorized
			w.Header().Set("WWW-Authenticate", `Basic realm="tare", charset="UTF-8"`)
		}
		connlimit.CloseUnread(w, r)
		deny(w, r, d)
	})
}

// record logs a call that changes state. A handler that panicked has status 500.
func (g *Gate) record(r *http.Request, a Account, w *StatusWriter) {
	level := slog.LevelInfo
	status := w.Status()
	if status >= 400 {
		level = slog.LevelWarn
	}
	fields := []slog.Attr{
		slog.String("account", a.Name), slog.String("remote", r.RemoteAddr), slog.String("method", r.Method),
		slog.String("path", r.URL.Path), slog.Int("status", status),
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		fields = append(fields, slog.String("certificate", r.TLS.VerifiedChains[0][0].Subject.String()))
	}
	g.log.LogAttrs(context.WithoutCancel(r.Context()), level, "operator call", fields...)
}

// A StatusWriter records the status of a response.
type StatusWriter struct {
	http.ResponseWriter
	status int // 0: none was sent
}

// Status returns the response's status, or 500 if the handler panicked before sending one.
func (w *StatusWriter) Status() int {
	if w.status == 0 {
		return http.StatusInternalServerError
	}
	return w.status
}

// Returned records that the handler has returned: an empty response has status 200.
func (w *StatusWriter) Returned() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *StatusWriter) WriteHeader(code int) {
	if w.status == 0 && code >= 200 {
		w.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *StatusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap supports http.ResponseController.
func (w *StatusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
