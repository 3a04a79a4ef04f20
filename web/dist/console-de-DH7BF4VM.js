import{a as p,c as m,la as o}from"./chunk-LBABT4LC.js";m(p(o,null),document.getElementById("app"));
