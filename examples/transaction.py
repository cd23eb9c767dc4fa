"""A job in your own transaction, with SQLAlchemy: it is there if the transaction commits, and never was if it does not.

fastq dev examples.transaction:registry         works the jobs; brings its own Postgres
python -m examples.transaction                  signs two people up, one of them in vain (in another terminal)
"""

from dataclasses import dataclass

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from examples import database
from fastq import Args, Client, Job, Registry, Worker

registry = Registry()


@dataclass
class WelcomeArgs(Args, kind="welcome"):
    account_id: int
    name: str


@registry.register
class WelcomeWorker(Worker[WelcomeArgs]):
    def work(self, job: Job[WelcomeArgs]) -> None:
        print(f"welcome  {job.args.name}, account {job.args.account_id}")


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "example_account"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


def sign_up(session: Session, client: Client, name: str) -> None:
    """Add an account and the job that welcomes it; both belong to the session's transaction."""
    account = Account(name=name)
    session.add(account)
    session.flush()  # gives the account its id
    client.enqueue(WelcomeArgs(account.id, name), conn=session)
    if not name.isalpha():
        raise ValueError(f"{name!r} is no name")


def main() -> None:
    """Sign up one person who commits and one who does not."""
    url = database.url()
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
    Base.metadata.create_all(engine)
    with Client(url) as client:
        for name in ("Ada", "R2-D2"):
            try:
                with Session(engine) as session, session.begin():
                    sign_up(session, client, name)
                print(f"{name} has an account, and a job")
            except ValueError as error:
                print(f"{error}: no account, no job")
    engine.dispose()


if __name__ == "__main__":
    main()
