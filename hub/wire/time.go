package wire

// isTime reports whether s is a date-time of RFC 3339, section 5.6. It is
// read by hand because time.Parse differs from the RFC in both directions: it
// takes a comma before the fraction and a single-digit hour, and refuses
// lower-case t and z and leap seconds.
//
// A leap second is accepted where one can be: 23:59:60 UTC on the last day of
// a month. Whether one was in fact inserted then is not looked up.
func isTime(s string) bool {
	// 2006-01-02T15:04:05 and at least a Z
	if len(s) < 20 || s[4] != '-' || s[7] != '-' || s[10]|0x20 != 't' || s[13] != ':' || s[16] != ':' {
		return false
	}
	year, ok1 := number(s[0:4])
	month, ok2 := number(s[5:7])
	day, ok3 := number(s[8:10])
	hour, ok4 := number(s[11:13])
	minute, ok5 := number(s[14:16])
	second, ok6 := number(s[17:19])
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 {
		return false
	}
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 60 {
		return false
	}
	zone := s[19:]
	if zone[0] == '.' {
		n := 1
		for n < len(zone) && '0' <= zone[n] && zone[n] <= '9' {
			n++
		}
		if n == 1 {
			return false
		}
		zone = zone[n:]
	}
	offset, ok := offsetMinutes(zone)
	return ok && (second < 60 || endsMonth(year, month, day, hour*60+minute-offset))
}

// offsetMinutes reads Z, z or ±hh:mm.
func offsetMinutes(zone string) (int, bool) {
	if zone == "Z" || zone == "z" {
		return 0, true
	}
	if len(zone) != 6 || zone[0] != '+' && zone[0] != '-' || zone[3] != ':' {
		return 0, false
	}
	hours, ok1 := number(zone[1:3])
	minutes, ok2 := number(zone[4:6])
	if !ok1 || !ok2 || hours > 23 || minutes > 59 {
		return 0, false
	}
	if zone[0] == '-' {
		return -(hours*60 + minutes), true
	}
	return hours*60 + minutes, true
}

// endsMonth reports whether a minute of a local date, given in UTC and thus
// possibly of the day before or after, is the last minute of a UTC month.
func endsMonth(year, month, day, utcMinute int) bool {
	const minutesOfDay, lastMinute = 24 * 60, 24*60 - 1
	switch utcMinute {
	case lastMinute:
		return day == daysIn(year, month)
	case lastMinute - minutesOfDay: // the day before
		return day == 1
	case lastMinute + minutesOfDay: // the day after
		return day+1 == daysIn(year, month)
	default:
		return false
	}
}

// number reads decimal digits only.
func number(s string) (int, bool) {
	n := 0
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	default:
		return 31
	}
}
