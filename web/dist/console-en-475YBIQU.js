import{a as p,c as m,la as o}from"./chunk-YP2DMLEX.js";m(p(o,null),document.getElementById("app"));
