package api

import "strings"

// SafeCell returns a text as a cell of CSV that no spreadsheet runs: an apostrophe stands
// before a formula, as OWASP advises (CSV Injection), and before a formula that has
// apostrophes already, so that [PlainCell] returns exactly the text.
func SafeCell(text string) string {
	if isFormula(text) {
		return "'" + text
	}
	return text
}

// PlainCell returns the text of a cell that [SafeCell] has made.
func PlainCell(cell string) string {
	if strings.HasPrefix(cell, "'") && isFormula(cell) {
		return cell[1:]
	}
	return cell
}

// isFormula reports whether a spreadsheet could run a text, not counting its leading
// apostrophes. Some spreadsheets ignore white space before the sign, and accept
// full-width signs.
func isFormula(text string) bool {
	text = strings.TrimLeft(text, "'")
	if text != "" && strings.IndexByte("\t\r\n", text[0]) >= 0 {
		return true
	}
	text = strings.TrimLeft(text, " \u00a0\u3000")
	for _, sign := range []string{"=", "+", "-", "@", "＝", "＋", "－", "＠"} {
		if strings.HasPrefix(text, sign) {
			return true
		}
	}
	return false
}
