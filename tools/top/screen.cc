#include "tools/top/screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tools/top/saved_terminal.h"
#include "tools/top/terminfo.h"
// Last: it takes short names as macros.
#include <curses.h>

namespace troupe::top {
namespace {

constexpr int kEscapeDelay_ms = 100;  // a key's bytes may come in pieces over ssh
constexpr int kEnds[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum Pair : short { kRed = 1, kYellow };

int key_of(int key) {
  switch (key) {
    case KEY_UP: return kUp;
    case KEY_DOWN: return kDown;
    case KEY_LEFT: return kLeft;
    case KEY_RIGHT: return kRight;
    case KEY_PPAGE: return kPageUp;
    case KEY_NPAGE: return kPageDown;
    case KEY_HOME: return kHome;
    case KEY_END: return kEnd;
    case KEY_ENTER: case '\r': case '\n': return kEnter;
    case KEY_BACKSPACE: case 0x7F: case '\b': return kBackspace;
    default: return key > 0xFF ? static_cast<int>(kNone) : key;
  }
}

Event pressed(int key) {
  if (key == '\f') clearok(curscr, TRUE);  // Ctrl-L: all is drawn again
  const int meant = key_of(key);
  return meant == kNone || key == '\f' ? Event{} : Event{Event::kKey, meant};
}

attr_t attributes_of(Look look, bool colours) {
  switch (look) {
    case Look::kTitle: return A_BOLD;
    case Look::kHeader: case Look::kSelected: return A_REVERSE;
    case Look::kBad: return A_BOLD | (colours ? static_cast<attr_t>(COLOR_PAIR(kRed)) : A_NORMAL);
    case Look::kNote: return colours ? static_cast<attr_t>(COLOR_PAIR(kYellow)) : A_NORMAL;
    case Look::kDim: return A_DIM;
    case Look::kPlain: break;
  }
  return A_NORMAL;
}

// Where the terminal shows bytes, a ? for what is none of ASCII.
std::string showable(const std::string& text) {
  if (MB_CUR_MAX > 1) return text;
  std::string bytes;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) bytes += static_cast<unsigned char>(c) < 0x80 ? c : '?';
  }
  return bytes;
}

}  // namespace

struct Screen::Parts {
  sigset_t taken{}, mask_before{};
  int signals = -1;
  std::optional<SavedTerminal> saved;
  SCREEN* screen = nullptr;
  bool colours = false;
};

StatusOr<std::unique_ptr<Screen>> Screen::open() {
  TROUPE_RETURN_IF_ERROR(usable_terminal());
  std::setlocale(LC_CTYPE, "");
  auto parts = std::make_unique<Parts>();
  sigemptyset(&parts->taken);
  for (const int signal : kEnds) sigaddset(&parts->taken, signal);
  for (const int signal : {SIGWINCH, SIGTSTP, SIGCONT}) sigaddset(&parts->taken, signal);
  pthread_sigmask(SIG_BLOCK, &parts->taken, &parts->mask_before);
  parts->signals = signalfd(-1, &parts->taken, SFD_CLOEXEC | SFD_NONBLOCK);
  parts->saved.emplace(leave_bytes());
  std::unique_ptr<Screen> screen(new Screen(std::move(parts)));
  if (screen->parts_->screen == nullptr) return no_terminal("this terminal cannot be drawn on");
  return screen;
}

Screen::Screen(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {
  parts_->screen = newterm(nullptr, stdout, stdin);
  if (parts_->screen == nullptr) return;
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  curs_set(0);
  set_escdelay(kEscapeDelay_ms);
  if (std::getenv("NO_COLOR") == nullptr && has_colors() && start_color() == OK) {
    use_default_colors();
    parts_->colours = init_pair(kRed, COLOR_RED, -1) == OK && init_pair(kYellow, COLOR_YELLOW, -1) == OK;
  }
  const Size now = size();
  resize_term(static_cast<int>(now.rows), static_cast<int>(now.columns));
}

Screen::~Screen() {
  if (parts_->screen != nullptr) {
    endwin();
    delscreen(parts_->screen);
  }
  parts_->saved.reset();
  close(parts_->signals);
  pthread_sigmask(SIG_SETMASK, &parts_->mask_before, nullptr);
}

Size Screen::size() const {
  winsize now{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) != 0 || now.ws_row == 0 || now.ws_col == 0) return {};
  return {now.ws_row, now.ws_col};
}

void Screen::show(const std::vector<Line>& lines) {
  erase();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const attr_t attributes = attributes_of(lines[i].look, parts_->colours);
    attrset(static_cast<int>(attributes));
    mvaddstr(static_cast<int>(i), 0, showable(lines[i].text).c_str());
  }
  attrset(A_NORMAL);
  refresh();
}

Event Screen::wait(std::chrono::milliseconds patience, int waker) {
  if (const int waiting = getch(); waiting != ERR) return pressed(waiting);
  pollfd sources[] = {{STDIN_FILENO, POLLIN, 0}, {parts_->signals, POLLIN, 0}, {waker, POLLIN, 0}};
  if (poll(sources, std::size(sources), static_cast<int>(patience.count())) <= 0) return {};
  if (sources[1].revents != 0) return signalled();
  if ((sources[0].revents & POLLIN) != 0) {
    const int key = getch();
    if (key != ERR) return pressed(key);
  }
  if ((sources[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return {Event::kOver, 0};
  return sources[2].revents != 0 ? Event{Event::kWoken, 0} : Event{};
}

Event Screen::signalled() {
  signalfd_siginfo came{};
  if (read(parts_->signals, &came, sizeof came) != sizeof came) return {};
  const int signal = static_cast<int>(came.ssi_signo);
  if (signal == SIGTSTP) stop();
  if (signal == SIGTSTP || signal == SIGCONT || signal == SIGWINCH) {
    const Size now = size();
    if (signal != SIGWINCH) reset_prog_mode();  // a shell may have set its own
    resize_term(static_cast<int>(now.rows), static_cast<int>(now.columns));
    clearok(curscr, TRUE);
    return {Event::kResized, 0};
  }
  return {Event::kOver, signal};
}

// As if nobody took the signal, so that a shell sees a stopped job; where nobody could continue it the kernel does not stop it.
void Screen::stop() {
  endwin();
  struct sigaction as_usual {}, before {};
  as_usual.sa_handler = SIG_DFL;
  sigaction(SIGTSTP, &as_usual, &before);
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTSTP);
  raise(SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);  // stands here until SIGCONT
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  sigaction(SIGTSTP, &before, nullptr);
}

}  // namespace troupe::top
