#!/usr/bin/perl
# Which options and which sentences of refusal no test of the command line has met.
#
#   said.pl SOURCE_DIR LOG...
#
# An option is met when a logged command has it. A sentence (CP_REFUSED and CP_BAD_USAGE, anywhere in the sources) is met
# when something logged has its form. unsaid.txt lists those that cannot be met here, each with its reason; a line
# there that fits no sentence, or one that is met after all, is a failure too.
use strict;
use warnings;

my ($root, @logs) = @ARGV;
my $failures = 0;

sub text_of {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!\n";
    local $/;
    return <$file> // '';
}

my (@commands, $said);
$said = '';
for my $log (@logs) {
    my $text = text_of($log);
    push @commands, $text =~ /^\$ (.*)$/mg;
    $said .= $text;
}
die "no command was logged\n" unless @commands;
my %seen;
$said = join "\n", grep { !$seen{$_}++ } split /\n/, $said;

# ---- options ----

my @tables = glob "$root/harness/cli/*.c";
my $options = 0;
for my $path (@tables) {
    my $text = text_of($path);
    while ($text =~ /const cp_option cp_(\w+?)_options\[\] = \{(.*?)\n\};/sg) {
        my ($table, $rows) = ($1, $2);
        my ($command) = $table =~ /^(\w+?)(?:_command)?$/;
        while ($rows =~ /\{"([a-z-]+)", (?:'(.)'|0),/g) {
            my ($name, $letter) = ($1, $2);
            my $forms = "--$name" . (defined $letter ? "|-$letter" : '');
            my $before = $command eq 'common' ? qr/./ : qr/\b$command\b/;
            $options++;
            next if grep { /$before.*(?:^|\s)(?:$forms)(?:[\s=]|$)/ } @commands;
            print "no test gives $command --$name\n";
            $failures++;
        }
    }
}
die "no option was found in the sources\n" unless $options;

# ---- sentences ----

my %length = (PRId64 => 'lld', PRIu64 => 'llu', PRId32 => 'd', PRIu32 => 'u');

sub form_of {
    my ($format) = @_;
    my $form = '';
    for my $piece (split /(%[-+ #0-9.*]*(?:hh|h|ll|l|z|j|t)?[a-zA-Z%])/, $format) {
        if ($piece =~ /^%.*%$/) { $form .= '%' }
        elsif ($piece =~ /^%.*[diu]$/) { $form .= '-?\d+' }
        elsif ($piece =~ /^%/) { $form .= '.*?' }
        else { $form .= quotemeta $piece }
    }
    $form =~ s/^\.\*\?//; # whatever stands first is found more slowly, and no better
    return qr/$form/;
}

my @unsaid = grep { /\S/ && !/^#/ } split /\n/, text_of("$root/tests/cli/unsaid.txt");
my %used;
my @sources = split /\n/, `find '$root/base' '$root/reference' '$root/models' '$root/harness' -name '*.c' -o -name '*.h'`;
my $sentences = 0;
for my $path (sort @sources) {
    my $text = text_of($path);
    $text =~ s{/\*.*?\*/}{}sg;
    while ($text =~ /\bCP_(?:REFUSED|BAD_USAGE)\s*,((?:[^;"]|"(?:[^"\\]|\\.)*")*);/g) {
        my $call = $1;
        $call =~ s/"\s*(PRI\w+)\s*/""$length{$1}" /g;
        my @groups;
        while ($call =~ /((?:"(?:[^"\\]|\\.)*"\s*)+)/g) {
            push @groups, join '', $1 =~ /"((?:[^"\\]|\\.)*)"/g;
        }
        my ($format) = grep { /\s/ } @groups;
        next unless defined $format;
        $format =~ s/\\(.)/$1/g;
        $sentences++;
        my $form = form_of($format);
        my ($excuse) = grep { my ($words) = split / :: /; index($format, $words) >= 0 } @unsaid;
        my $met = $said =~ $form;
        my $name = $path =~ s{^\Q$root\E/}{}r;
        if (defined $excuse) {
            $used{$excuse} = 1;
            next unless $met;
            print "$name: unsaid.txt excuses a sentence that is met: $format\n";
        } elsif ($met) {
            next;
        } else {
            print "$name: no test meets: $format\n";
        }
        $failures++;
    }
}
die "no sentence was found in the sources\n" unless $sentences > 20;
for my $excuse (grep { !$used{$_} } @unsaid) {
    print "unsaid.txt: no sentence has this form: $excuse\n";
    $failures++;
}

print "$options options, $sentences sentences, ", scalar keys %used, " excused, $failures failed\n";
exit($failures ? 1 : 0);
