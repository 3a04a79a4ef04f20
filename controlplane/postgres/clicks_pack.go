package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// pack is a row of click_pack: parallel arrays of parts.
type pack struct {
	links, clicks, bots []int64
	days, newest        []time.Time
	details             [][]byte
}

const (
	secondsOfDay = 24 * 60 * 60

	// smallestArea and largestArea are how many low bits of the ids the links of an area
	// differ in; areaStep is what lies between an area and those in it. See click_areas.
	smallestArea, largestArea, areaStep = 8, areaBits, 2

	// A row with that many bytes, of which each part takes so many besides its detail, fits
	// a page of PostgreSQL.
	packBytes, partBytes = 7_900, 5*8 + 4 + 4
)

// areaOf gives the area of 2^bits links that a link is in.
func areaOf(link int64, bits uint) int64 { return link>>bits<<bits | int64(bits) }

// areasOf gives all areas that links are in.
func areasOf(links []int64) []int64 {
	var areas []int64
	for bits := uint(smallestArea); bits <= largestArea; bits += areaStep {
		for _, link := range links {
			areas = append(areas, areaOf(link, bits))
		}
	}
	return areas
}

// queue adds the parts as rows.
func (p *clickParts) queue(q *pgx.Batch, node string, boot [16]byte, seq int64) {
	p.cut(0, len(p.links), largestArea+areaStep, func(area int64, from, to int) {
		q.Queue(addPack, node, boot, seq, p.workspaces[from], area, p.links[from:to], p.days[from:to],
			p.clicks[from:to], p.bots[from:to], p.lasts[from:to], p.details[from:to])
	})
}

// cut gives the rows that parts [from, to) become. They are of one area of 2^bits links, unless
// that is more than the largest has. It becomes one row when that fits a page, those of smaller areas
// otherwise, and as many as it takes when there are none.
func (p *clickParts) cut(from, to int, bits uint, row func(area int64, from, to int)) {
	for from < to {
		end, size := from, 0
		for end < to && (bits > largestArea || size <= packBytes) {
			size += partBytes + len(p.details[end])
			end++
		}
		switch {
		case bits <= largestArea && size <= packBytes:
			row(areaOf(p.links[from], bits), from, end)
		case bits == smallestArea:
			end = max(end-1, from+1)
			row(areaOf(p.links[from], bits), from, end)
		default:
			end = from + 1
			for end < to && p.workspaces[end] == p.workspaces[from] && p.links[end]>>(bits-areaStep) == p.links[from]>>(bits-areaStep) {
				end++
			}
			p.cut(from, end, bits-areaStep, row)
		}
		from = end
	}
}

// takePartsOf removes the parts of a link, and gives what they add up to. Rollers are kept
// off its area.
var takePartsOf = `
WITH rest AS MATERIALIZED (
	SELECT p.ctid AS place, sum(s.clicks) FILTER (WHERE s.link = $2) AS gone, sum(s.bots) FILTER (WHERE s.link = $2) AS bots,
	       array_agg(s.link ORDER BY s.n) FILTER (WHERE s.link <> $2) AS links, array_agg(s.day ORDER BY s.n) FILTER (WHERE s.link <> $2) AS days,
	       array_agg(s.clicks ORDER BY s.n) FILTER (WHERE s.link <> $2) AS clicks, array_agg(s.bots ORDER BY s.n) FILTER (WHERE s.link <> $2) AS bot_clicks,
	       array_agg(s.at ORDER BY s.n) FILTER (WHERE s.link <> $2) AS newest, array_agg(s.detail ORDER BY s.n) FILTER (WHERE s.link <> $2) AS details
	FROM click_pack p
	CROSS JOIN LATERAL unnest(p.links, p.days, p.clicks, p.bot_clicks, p.newest, p.details) WITH ORDINALITY AS s (link, day, clicks, bots, at, detail, n)
	WHERE ` + ofWorkspace("p.workspace_id", "$1") + ` AND p.area = ANY ($3::bigint[]) AND $2::bigint = ANY (p.links)
	GROUP BY p.ctid),
emptied AS (DELETE FROM click_pack p USING rest r WHERE p.ctid = r.place AND r.links IS NULL),
kept AS (
	UPDATE click_pack p SET links = r.links, days = r.days, clicks = r.clicks, bot_clicks = r.bot_clicks, newest = r.newest, details = r.details
	FROM rest r WHERE p.ctid = r.place AND r.links IS NOT NULL)
SELECT coalesce(sum(gone), 0)::bigint, coalesce(sum(bots), 0)::bigint FROM rest`
