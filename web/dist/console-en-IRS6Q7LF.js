import{a as p,c as m,la as o}from"./chunk-44MGMQID.js";m(p(o,null),document.getElementById("app"));
