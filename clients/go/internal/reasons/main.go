// Command reasons writes the table of reasons, reasons_table.go, from the output of `seqsvr explain -o json`:
//
//	go run ./internal/reasons            # the program is $SEQSVR, or the one that cargo has built in target/debug
//	go run ./internal/reasons -check     # compares the file instead
//
// The table is committed, so that a build needs no server, and a check compares it, so that it is never stale.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"strings"
)

// file is the path of the table from the root of the module.
const file = "reasons_table.go"

// named are the subjects whose reasons have a constant, because a caller can meet them.
var named = map[string]bool{
	"Allocation": true, "Ids": true, "Keys": true, "Endpoints": true, "Roles": true, "Tenants": true, "Clients": true,
}

type entry struct {
	Reason       string
	Subject      string
	Retryable    bool
	RetryAfterMS int64 `json:"retry_after_ms"`
	Outcome      string
	Meaning      string
}

func main() {
	check := flag.Bool("check", false, "compare the file instead of writing it")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "reasons:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	program := os.Getenv("SEQSVR")
	if program == "" {
		program = "../../target/debug/seqsvr"
	}
	command := exec.Command(program, "explain", "-o", "json")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	text, err := table(output)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(file, text, 0o644)
	}
	if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, text) {
		return fmt.Errorf("%s is stale; run `go generate` (%v)", file, err)
	}
	return nil
}

// table returns the file for the output of `seqsvr explain`.
func table(output []byte) ([]byte, error) {
	var list struct{ Items []entry }
	if err := json.Unmarshal(output, &list); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("the output has no items")
	}
	var out bytes.Buffer
	out.WriteString("// Code generated from `seqsvr explain -o json` by internal/reasons. DO NOT EDIT.\n\npackage seqsvr\n\n")
	out.WriteString("import \"time\"\n\n// Reasons that a caller can meet, as in [Error.Reason].\nconst (\n")
	for _, e := range list.Items {
		if named[e.Subject] {
			fmt.Fprintf(&out, "%s\t%s = %q\n", comment(constant(e.Reason)+": "+e.Meaning), constant(e.Reason), e.Reason)
		}
	}
	out.WriteString(")\n\nvar reasons = map[string]Reason{\n")
	for _, e := range list.Items {
		fmt.Fprintf(&out, "\t%q: {\n\t\tName: %q, Subject: %q,\n", e.Reason, e.Reason, e.Subject)
		if e.Retryable {
			out.WriteString("\t\tRetryable: true,\n")
		}
		if e.RetryAfterMS > 0 {
			fmt.Fprintf(&out, "\t\tRetryAfter: %d * time.Millisecond,\n", e.RetryAfterMS)
		}
		if e.Outcome == "unknown" {
			out.WriteString("\t\tOutcomeUnknown: true,\n")
		}
		fmt.Fprintf(&out, "\t\tMeaning: %q,\n\t},\n", e.Meaning)
	}
	out.WriteString("}\n")
	return format.Source(out.Bytes())
}

// constant returns the name of the constant of a reason, e.g. ReasonOwnerTimedOut or ReasonUIDMissing.
func constant(reason string) string {
	name := "Reason"
	for _, word := range strings.Split(reason, "_") {
		if word != "UID" && word != "ID" {
			word = word[:1] + strings.ToLower(word[1:])
		}
		name += word
	}
	return name
}

// comment returns a text as lines of a comment.
func comment(text string) (lines string) {
	const width = 110
	line := "\t//"
	for _, word := range strings.Fields(text) {
		if len(line)+len(word) > width {
			lines += line + "\n"
			line = "\t//"
		}
		line += " " + word
	}
	return lines + line + "\n"
}
